// Package perf implements `bobnet perf`: it measures one-way time, bandwidth and message rate of
// every stack over one link, so that their ratios are meaningful.
//
// # Method
//
// Two processes, the halves, run at the two ends of the link. The client is also the coordinator.
// Over a control channel it tells the server the next step. The control channel uses another link
// than the measured one if there is one. A measurement (a Case) consists of many short samples, and
// the samples of all cases alternate: in each round, every case gets one. So a disturbance of a
// second affects all stacks alike.
//
// The cores of a virtual machine may move between near (they share a cache) and far every few
// seconds. That changes the time of everything that crosses from one core to the other. So perf
// measures the time of a bounced cache line before and after each sample. It drops samples during
// which that time changed and repeats them later. It sorts the others into the near and the far
// state, and reports the state in which most samples were taken. Record.LineNs shows which one that
// was.
//
// Latencies are halves of round trips, each with one reading of the clock. Percentiles are those of
// all samples of the state together. Bandwidths and rates are medians over samples. A sample opens
// the stack, warms it up, runs and closes it, so that no idle socket of another stack gets a copy
// of every frame.
//
// The test logp sweeps over the length of bursts and the delay in them. Each sample is a whole
// sweep, and each point is the median over samples. The parameters of the LogP model follow from
// the points (characterize). Pauses are timed, and time beyond their set length is subtracted.
//
// The tests bidirectional and overhead are those of the VMMC paper. In bidirectional, both halves
// send at the same time, and each waits for the other's message before it sends again. Overhead is
// the time of the sending call alone, on an idle network.
//
// The tests primitives and bulk are the Split-C paper's figures 6-3 and 6-4: the time of each
// operation, many in a row, while the other half is idle or does the same (two-way).
//
// # Collectives
//
// Collectives (function Collectives) measures on 2, 4 and 8 ranks instead of two halves. Rank 0
// prints the time of a call of each collective; a C program prints the same for an MPI library.
// Each round starts the ranks of each stack once, in turns, and the medians of the rounds are
// reported. The time of a call is the mean of the rank at which it is the longest.
//
// # Stacks
//
//	line    a bare cache line between the halves, link shm only
//	handoff messages copied once, into memory of both halves, link shm only
//	raw     frames on the bare link: one header, and no protocol except a window
//	vipl    virtual interfaces, at each reliability level
//	mplite  ranks on top of vipl
//	am2     active messages between two endpoints, each request answered
//	vmmc    memory of each half, to which the other writes
//	vrpc    remote procedures, one call after another, over one transport or another
//	splitc  a global address space, over each communication layer
//	stream  net.Conn over a VI, by the same calls as tcp
//	tcp     net.Conn, blocking, with the kernel's default offloads
//	udp     net.UDPConn, blocking, with a window of its own
//	ucx     tagged messages of UCX, by its benchmark ucx_perftest, link shm only
//
// All stacks carry the size in payload and copy it from and to user memory. In the rate test, the
// kernel may cork TCP's small writes (no TCP_NODELAY); in the other tests it may not.
//
// # Placement
//
// Each half is an ordinary process on all cores. Neither threads nor processes of any stack are
// pinned.
package perf
