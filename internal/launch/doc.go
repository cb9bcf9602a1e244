// Package launch starts a program as the ranks of one job on several hosts: bobnet run.
//
// On each host a node, which is the same program, starts that host's ranks, serves PMI-1 to them
// (package internal/pmi), and sends their output to the head. The head is the process of bobnet
// run. The node of its own host is a child; nodes of other hosts are started over ssh. Head and
// nodes exchange lines of JSON over standard input and output. No port is opened anywhere. A node
// whose input ends kills its ranks, so no process is left behind, however the head dies.
//
//	head: Run                      node: ServeNode                rank
//	  | hello: version, interface,   |                              |
//	  |        clock             <---|                              |
//	  | beat: interval            -->|                              |
//	  | start: ranks, command     -->| starts each, PMI_FD=3     -->|
//	  |                              |<--- put, barrier_in ---------|
//	  | fence: values that were put<-|  (all of this node are in)   |
//	  | release: of all nodes     -->|---- barrier_out, get ------->|
//	  | line, exit, abort        <---|<--- output, exit, abort -----|
//	  | alive: at that interval  <---|                              |
//
// For a survey (bobnet doctor --hosts) the nodes open NICs, and send frames to each other:
//
//	| open                      -->|
//	| end: address, MTU, rules <---|
//	| reach: all ends           -->| echoes to and from the other nodes' NICs
//	| reached: round trips, MTU<---|
//
// The hosts describe themselves before anything starts. Judge reports a host that does not answer,
// or has another version, no interface, or a clock that is off. A host that sends nothing for too
// long while its ranks run is reported as lost (drive.go).
//
// To bind ranks to processors, nodes and hydra start this program, which binds itself and executes
// the command (Bind).
//
// If MPICH's hydra is installed, its mpiexec can start the ranks instead (Hydra), each through this
// program (keep.RankVerb). The nodes then stay until mpiexec has ended, because its ssh uses their
// connections (share.go).
//
// A node is a pair of processes (package keep); so is the process that runs a rank under hydra. If
// SIGKILL ends one process of a pair, the other ends everything that the ranks have started. After
// two SIGKILLs at once, processes in sessions of their own can remain: an ordinary user's process
// cannot find them.
package launch
