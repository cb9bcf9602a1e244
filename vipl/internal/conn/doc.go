// Package conn is a connection of VIs as a machine: frames and time go in, frames and
// completions come out. It starts no goroutine, reads no clock but its link's, and knows
// neither NICs nor handshakes, so that a test can join two connections by a slice of
// frames.
//
//	Adapter   what the connections of one NIC share: batch, memory, timers, counters
//	Conn      one end of a connection
//	 ├ Queue     a send queue and a receive queue of descriptors
//	 ├ txHalf    from descriptors to frames
//	 ├ rxHalf    from frames to descriptors
//	 ├ Path      how long the frames may be that reach the peer, and how that is found out
//	 ├ readTable, serveTable   RDMA reads: the asking side, the answering side
//	 └ looseRx   the receiving side of the unreliable level
//	Ring      the entries of a completion queue
//
// What an Adapter does in one turn of its engine is, in this order: SetClock, then for
// each frame Conn.ReceiveShort or Conn.Receive, then RunTimers, Settle and FlushPending.
// What it asks of its NIC are Hooks, what a Conn asks of its VI is an Owner; neither is
// called for a frame that goes well. Everything runs under the lock of the engine.
package conn
