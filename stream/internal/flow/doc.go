// Package flow is the protocol of streams without I/O: the counters of both ends, and the few bytes
// with which they inform each other. It has no clock, goroutine or lock, and holds no data.
//
// Each end owns a ring that the other end writes to by RDMA, and a Receiver that tracks its
// contents. The other end's Sender tracks where the next write goes and how many bytes may be
// written. A write carries a Word as immediate data, and so consumes one of the receives that the
// ring's owner keeps posted. Bytes that have been read, and receives that are posted again, are
// returned as credit.
//
//	sender                                  receiver
//	Stage:    written, not posted yet
//	Sender:   Space, Sent  -- Data word -->  Arrived, Readable, Consumed
//	          Credited    <-- Credit word -- Credit
//	                       -- End word  -->  End
package flow
