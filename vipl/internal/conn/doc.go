// Package conn is a connection of VIs as a machine: frames and time go in, frames and completions
// come out. It starts no goroutine, reads no clock but its link's, and knows neither NICs nor
// handshakes, so that a test can join two connections by a slice of frames.
//
//	Shared    what the connections of one NIC share: batch, memory, timers, counters
//	Conn      one end of a connection
//	 ├ Queue     a send queue and a receive queue of descriptors
//	 ├ txHalf    from descriptors to frames
//	 ├ rxHalf    from frames to descriptors
//	 ├ Path      how long the frames may be that reach the peer, and how that is found out
//	 ├ readTable, serveTable   RDMA reads: the asking side, the answering side
//	 └ looseRx   the receiving side of the unreliable level
//	Ring      the entries of a completion queue
//
// # The loop of a connection
//
// A turn of the engine calls these, in this order:
//
//	SetClock       the time; the second half of receives that the last turn deferred
//	ReceiveFast    the only frame of a poll, if it is the expected one (fast.go)
//	 or Receive    each frame of a poll (receive.go): data are placed, descriptors complete
//	RunTimers      connections whose timer is due (timers.go): drive
//	Settle         the second half of the receives, for each connection with frames: drive (settle.go)
//	Uncork         only if the program found nothing: connections left to its poll: drive
//	FlushPending   the batch goes to the link (batch.go)
//
// A post calls Conn.Send (post.go), which queues the descriptor, drives, and hands the batch to the link.
//
// All of them send by one function, Conn.drive (next.go):
//
//	drive         until nothing may leave: next, transmit; then arm the timer
//	 next         decides what leaves; its first case is the fast path
//	 transmit     builds that frame in the batch (send.go, pack.go, serve.go, pieces.go)
//	 arm          when to look again (timers.go)
//
// Shared asks the NIC by Hooks, a Conn its VI by an Owner. Neither is called for a frame that goes
// well, except Owner.Notify. Everything runs under the lock of the engine.
package conn
