// Package reliability holds the state machines that turn a lossy link into a
// reliable connection: one Sender and one Receiver per connection and side.
//
// Everything here is pure. Time is an argument (monotonic nanoseconds), frames
// are described by values, and nothing blocks, allocates in steady state,
// locks or draws random numbers. The caller, vipl's progress engine, moves the
// bytes; the same code runs in the simulator under virtual time.
//
// # Levels
//
// VIA knows three (VIPL reference, section 10). Unreliable uses only the
// Receiver's duplicate suppression. ReliableDelivery and ReliableReception run
// the same protocol; they differ in when a send completes (see Sender.Acked)
// and in the error that a sender gets when the receiver cannot take a message.
//
// # Protocol
//
// Each sequenced frame has a 32-bit sequence number and keeps it when it is
// sent again. The receiver acknowledges cumulatively (the next number it
// expects) and selectively (a bitmap of what it has beyond), on every frame it
// sends back. On its own it acknowledges after a short delay, every few
// frames, on a gap, and at once when the sender asks with FlagAckNow. The
// sender asks when its window fills, so that it never stands still for the
// delay.
//
// A frame is lost when one sent sufficiently later has been acknowledged
// (time-based, as RACK in RFC 8985). If the tail of a flight stays
// unacknowledged for about two round trips, a probe sends the last frame again
// to provoke the acknowledgement that tells (TLP in RFC 8985). Only when that
// fails too does the retransmission timer expire: it backs off exponentially,
// and after a bounded number of expiries without an answer the connection has
// failed with ErrUnreachable. Negative information (selective
// acknowledgements, gaps) so drives repair and positive information drives the
// window: the combination that the Bobnet paper (section 7) left as future
// work.
//
// The congestion window counts frames. It starts at a few, doubles each round
// trip until the first loss, then grows by one frame a round trip and shrinks
// at most once a round trip. It may fall below one frame: then frames are
// paced, one in more than a round trip, so that many senders can share a queue
// shorter than their number.
package reliability
