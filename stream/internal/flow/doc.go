// Package flow is the protocol of streams without I/O: what both ends count, and the few
// bytes in which they tell each other. It has no clock, goroutine, lock or memory of data.
//
// Each end owns a ring, into which the other one writes by RDMA, and a Receiver that knows
// what lies in it. The other end's Sender knows where the next write goes and how far it
// may go. A write carries a Word as immediate data, and so takes one of the receives that
// the owner of the ring keeps posted; what is read, and the receives, come back as credit.
//
//	sender                                  receiver
//	Stage:    written, not posted yet
//	Sender:   Space, Sent  -- Data word -->  Arrived, Readable, Consumed
//	          Credited    <-- Credit word -- Credit
//	                       -- End word  -->  End
package flow
