// Package handshake begins connections: it has the phases of both sides, and knows what they
// must agree on. The client drives it; every step is repeated until it is answered, and every
// answer may be repeated without harm.
//
//	client                                   server
//	  | -- Request (attributes, tag, MTU) -->  |  queued at the listener
//	  | <-- Retry (token) -------------------  |
//	  | -- Request (the same, token) ------->  |  proves the client's address
//	  | <-- Accept (attributes, tag, MTU) ---  |  the request was accepted
//	  | -- Probe (of full size) ------------>  |  Connected
//	  | <-- ProbeAck (of full size) ---------  |
//	  Connected
//
// The Probe and its answer are as long as the smaller of the two MTUs allows,
// so that a path that does not carry such frames is found now and not in the
// middle of a message. If both sides have long frames the client sends a Probe of that
// size, too, right before the first ones. With full-size probes the client
// sends short ones: if those are answered and the long ones never, it is the MTU; see
// conn.PathTest.
//
// By the token of the Retry the client proves that it is reached at its address; see package
// guard. A request without it gets nothing else and leaves nothing at the server; see
// Backlog.
//
// An Accept or a Probe for an attempt that was given up is answered by a Reset,
// so that the other side need not wait for its time-out.
//
// What answers a Request carries, in Ack, the client's first sequence number, besides
// its tag: 64 bits that nobody can guess. Whatever follows the Accept is numbered as
// the frames of the connection are, and judged like them; see conn.Conn.Genuine.
//
// Nothing here reads a clock or waits. Frames come by Table.Receive, the time is that of the
// state that connections share, which sends the frames, random numbers come from package guard, and
// each Side tells its owner how its attempt ended. The NIC's lock guards all of it.
package handshake
