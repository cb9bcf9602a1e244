// Package handshake implements the handshake that begins connections: the phases of both sides, and
// the terms that must match. The client drives it. Every step is repeated until it is answered, and
// every answer may safely be repeated.
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
// The Probe and its answer are as long as the smaller of the two MTUs allows, so that a path that
// does not carry such frames is detected now and not in the middle of a message. If both sides
// support long frames, the client also sends a Probe of that size, right before the first full-size
// ones. It sends short probes along with the full-size ones. If only the short ones are answered,
// the path does not carry full-size frames; see conn.PathTest.
//
// The client proves with the Retry's token that it can be reached at its address; see package
// guard. A request without a token gets no other answer, and leaves no state at the server; see
// Backlog.
//
// An Accept or a Probe for an attempt that was given up is answered with a Reset, so that the other
// side need not wait for its timeout.
//
// The answer to a Request carries the client's first sequence number in Ack, in addition to its
// tag: 64 unpredictable bits. Frames after the Accept are numbered and verified like the frames of
// the connection; see conn.Conn.Genuine.
//
// Nothing here reads a clock or waits. Frames arrive through Table.Receive. The state that
// connections share has the time and sends frames, random numbers come from package guard, and each
// Side reports the outcome of its attempt to its owner. The NIC's lock guards all of it.
package handshake
