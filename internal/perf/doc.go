// Package perf measures what `bobnet perf` prints: one-way time, bandwidth and
// message rate of every stack over one link, so that their ratios hold.
//
// # Method
//
// Two processes, the halves, sit at the two ends of the link. The client is
// also the coordinator: it tells the server over a control channel, which does
// not use the measured link where there is another way, what comes next. A
// measurement (a Case) is made of many short samples, and the samples of all
// cases take turns: round after round, each case once. What disturbs the
// machine for a second thus disturbs every stack alike.
//
// A virtual machine's cores may be moved between near (they share a cache)
// and far, every few seconds, and everything that crosses from one core to the
// other follows. So the time of a bounced cache line is taken before and after
// each sample. A sample during which it changed is dropped and made up for
// later; the others are sorted into the near and the far state, and what is
// reported is the state that most samples of the call were taken in: like is
// compared with like. Record.LineNs says which it was.
//
// Latencies are halves of round trips, with one reading of the clock each, and
// percentiles are those of all samples of the state together. Bandwidths and
// rates are medians over samples. A sample opens the stack, warms it up, runs
// and closes it, so that no idle socket of another stack gets a copy of every
// frame.
//
// The test logp is not one number but a sweep over the length of bursts and the
// delay in them, a whole sweep a sample; each of its points is the median over
// samples, and the parameters of the LogP model are found from these
// (characterize). Pauses are timed, and what they last too long is taken off.
//
// The tests bidirectional and overhead are those of the VMMC paper: both halves send
// at the same time, and wait for each other's message before they send again; and the
// time of the call that sends, alone, while the network is idle.
//
// The tests primitives and bulk are the Split-C paper's figures 6-3 and 6-4: what each of its
// operations takes, many after another, with the other half idle, or doing the same (two-way).
//
// # Collectives
//
// Collectives (function Collectives) measures on 2, 4 and 8 ranks, and not between two halves. Rank 0
// prints the time of a call of each collective; a C program prints the same for an MPI library. Each
// round starts the ranks of each stack once, in turns, and the medians of the rounds are reported. The
// time of a call is the mean of the rank at which it is the longest.
//
// # Stacks
//
//	line    a bare cache line between the halves, link shm only
//	handoff messages copied once, into memory of both halves, link shm only
//	raw     frames on the bare link: one header, no protocol but a window
//	vipl    virtual interfaces, at each reliability level
//	mplite  ranks on top of vipl
//	am2     active messages between two endpoints, each request answered
//	vmmc    memory of either half, which the other writes to
//	vrpc    remote procedures, one call after another, over one transport or another
//	splitc  a global address space, over each communication layer
//	stream  net.Conn over a VI, by the same calls as tcp
//	tcp     net.Conn, blocking, the kernel's offloads as they are
//	udp     net.UDPConn, blocking, with a window of its own
//
// All stacks carry the size in payload and copy it from and to user memory.
// TCP's rate test lets the kernel cork small writes (no TCP_NODELAY); its
// other tests do not.
//
// # Placement
//
// Each half is an ordinary process on all cores: neither threads nor processes
// are pinned, whatever the stack.
package perf
