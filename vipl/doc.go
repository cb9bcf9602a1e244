// Package vipl is Bobnet's VI provider: the calls of the VI Provider Library
// 1.0 under Go names, over raw Ethernet frames.
//
// A program opens a NIC, creates virtual interfaces (VIs) on it, connects each
// to one VI of another program, registers memory, and posts descriptors that
// name parts of it. The provider moves the data between the two memories: a
// send gathers from the sender's registered memory straight into frames, a
// receive is copied once, from the ring into the posted buffers.
//
//	nic, err := vipl.Open(&vipl.Config{Interface: "eth0"})
//	buf, mem, err := nic.AllocMem(4096, nil)
//	vi, err := nic.CreateVI(nil, nil, nil)
//	err = vi.PostRecv(&vipl.Descriptor{Segs: []vipl.Segment{{Data: buf, Handle: mem}}})
//	err = vi.Connect(ctx, serverAddr)
//	d, err := vi.RecvWait(ctx)
//
// # Who may call what
//
// A NIC, its VIs, completion queues and listeners may be shared between
// goroutines. A Descriptor belongs to the provider from the moment it is
// posted until a Done or Wait call returns it; so does the memory that it
// names: a receive may write to it at any time, a send reads it at any time.
//
// # Order
//
// Descriptors of one queue complete in the order they were posted. On the
// reliable levels messages arrive exactly once and in order; an RDMA write is
// in place before any message sent after it completes at the receiver. On the
// unreliable level a message arrives at most once or not at all, in order.
//
// # Progress
//
// Whoever waits drives the protocol: SendWait, RecvWait, CQ.Wait and the Done
// calls poll the link themselves. When nobody waits, a service goroutine takes
// over within a few milliseconds, so that acknowledgements, retransmissions,
// RDMA and connection requests go on while the application computes.
//
// # Errors
//
// Calls return the VIPL 1.0 codes as sentinel errors (ErrNotDone, ErrTimeout,
// ErrInvalidState, ...), wrapped with what was asked and what was found; test
// with errors.Is. A descriptor that completed in error is returned together
// with ErrDescriptor and says why in its Status.
package vipl
