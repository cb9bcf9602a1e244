// Package launch starts a program as the ranks of one job on several hosts: bobnet run.
//
// On each host a node, which is this program again, starts that host's ranks, serves them
// PMI-1 (package internal/pmi), and sends their output home. The node of this host is a child,
// that of another one is reached by ssh; with both the head talks by lines of JSON over
// standard input and output. No port is opened anywhere, and a node whose input ends kills
// its ranks: however the head dies, nothing is left behind.
//
//	head: Run                      node: ServeNode                rank
//	  | hello: version, interface,   |                              |
//	  |        clock             <---|                              |
//	  | beat: how often           -->|                              |
//	  | start: ranks, command     -->| starts each, PMI_FD=3     -->|
//	  |                              |<--- put, barrier_in ---------|
//	  | fence: what was put      <---|  (all of this node are in)   |
//	  | release: of all nodes     -->|---- barrier_out, get ------->|
//	  | line, exit, abort        <---|<--- output, exit, abort -----|
//	  | alive: again and again   <---|                              |
//
// For a survey (bobnet doctor --hosts) the nodes open NICs, and send frames to each other:
//
//	| open                      -->|
//	| end: address, MTU, rules <---|
//	| reach: all ends           -->| echoes to and from the other nodes' NICs
//	| reached: round trips, MTU<---|
//
// The hosts say what they are before anything starts: one that does not answer, or has
// another version, no interface, or a clock that is off, is named (Judge). One that says
// nothing for too long while its ranks run is lost, and named (drive.go).
//
// Ranks that are to be bound to processors are started, by nodes and by hydra, as this program,
// which binds itself and becomes the command (Bind).
//
// Where MPICH's hydra is installed its mpiexec can start the ranks instead (Hydra), each by
// this program (keep.RankVerb). The nodes stay then until it has ended, since its ssh goes
// through their connections (share.go).
//
// A node, and what runs a rank under hydra, is a pair of processes (package keep). A SIGKILL to
// one of them leaves the other to end what the ranks have started. What two SIGKILLs at once
// leave behind in sessions of its own, an ordinary user's process cannot find.
package launch
