// Package reliability holds the state machines that turn a lossy link into a
// reliable connection: one Sender and one Receiver per connection and side.
//
// Programs need only Level (vipl.Attributes) and Config (vipl.Config.Reliability). The
// other types are for vipl's progress engine.
//
// Everything here is pure. Time is an argument (monotonic nanoseconds), frames
// are values, and nothing blocks, allocates in steady state, locks or draws random
// numbers. The same code runs in the simulator in virtual time.
//
// # Levels
//
// VIA has three levels. Unreliable uses only the
// Receiver's duplicate suppression. ReliableDelivery and ReliableReception run
// the same protocol; they differ in when a send completes (see Sender.Acked)
// and in the error that a sender gets when the receiver cannot take a message.
package reliability

// Notes for maintainers, which go doc does not print.
//
// # Protocol
//
// Each sequenced frame has a 32-bit sequence number and keeps it when it is
// sent again. The receiver acknowledges cumulatively (the next number it
// expects) and selectively (a bitmap of what it has beyond), on every frame it
// sends back. On its own it acknowledges after a short delay, which is longer
// while frames are answered soon (talk.go), every few
// frames, on a gap, and when the sender asks with FlagAckNow: at once, or while frames
// are answered soon when the program waits. The
// sender asks when its window fills, so that it never stands still for the
// delay.
//
// A frame is lost when one sent later has been acknowledged and it is late by
// more than a reordering window (time-based, as RACK in RFC 8985), which grows
// when frames turn out to have been overtaken and not lost. If the tail of a
// flight stays unacknowledged for two round trips, a probe sends the last
// frame again to provoke the acknowledgement that tells (TLP in RFC 8985). A
// time-out of at least 10 ms is a thousand round trips on a segment, so there
// are up to eight probes before the first, further and further apart; each is
// one frame, or four where many frames are lost without a queue (below). Only then does the retransmission timer expire: it backs off
// exponentially, and after a bounded number of expiries without an answer the
// connection has failed with ErrUnreachable. When it was only the peer's
// process that slept, what arrives next shows it (F-RTO, RFC 5682), and
// nothing else goes twice. Negative information (selective acknowledgements,
// gaps) so drives repair and positive information drives the window: the
// combination that the Bobnet paper (section 7) left as future work.
//
// The congestion window counts frames. It starts at ten and doubles each round
// trip until the first loss; then it grows by one frame a round trip, or by a
// sixteenth of itself below eight frames, and shrinks at most once a round
// trip, to seven tenths, or to half below eight frames. It may fall to an
// eighth of a frame: then frames are paced, one in more than a round trip, so
// that many senders can share a queue shorter than their number. A reaction to
// loss that turns out to have been a mistake is taken back.
//
// # Loss without congestion
//
// A frame may also be lost because it was spoiled on its way. To slow down
// then helps nobody, and costs much: with a window of w frames of which a
// share p is lost, what small windows lose and regain balances at about
// w = 1/(8p), and so small a flight has nothing behind a lost frame that would
// show the loss at once. On a wire of 10 Gb/s, 5 % of loss left one stream a
// fortieth of it.
//
// Above a quarter of loss even the probes are lost, and with each the chance to learn what else
// is missing. With half of the frames lost in each direction, one probe in four is
// answered, and time-outs double meanwhile. So if the round trips show no queue, a probe or the
// frame of a time-out takes three more frames with it: those of the flight that were sent first,
// then new ones, and from the second probe on the same ones again. That leaves the
// window as it is, and the timer bounds it. A message of 55 frames then takes 9 ms at 30 % of
// loss and 16 ms at 51 %, in place of 186 ms and 17 s (round trip 20 us; TestHeavyLoss).
//
// Delay alone is no sign of congestion here: hosts cause more of it than
// networks do. Its absence is a sign of the contrary. Where a full queue loses
// frames, those beside them have waited in it, so a loss that is shown by a
// frame which came about as fast as any does not shrink the window. TCP Veno
// does so by the backlog (Fu and Liew, "TCP Veno: TCP Enhancement for
// Transmission over Wireless Access Networks", IEEE JSAC 21(2), 2003), as
// estimated from the round trip over the smallest in the way of TCP Vegas; with
// dozens of senders to one, the backlog of each is a frame or less, so here the
// delay itself decides, as in the Spike scheme of Cen, Cosman and Voelker
// ("End-to-end differentiation of congestion and wireless losses", IEEE/ACM
// Transactions on Networking 11(5), 2003). The delay must be within 4 us of the
// smallest of the last seconds, or within one and a half times the mean
// deviation, which is what hosts add. And the share of frames lost lately must
// be below an eighth: this bounds the harm where the sign fails.
//
// It fails where a queue is too short to show, of four full frames or fewer at
// 10 Gb/s, and for a connection that has never seen the queue empty. It goes
// unused where delays vary so much that none is near the smallest, and above
// an eighth of loss. A receiver that is too slow fills its ring before it loses
// frames, and a full ring delays them as a switch's queue does. While no queue
// shows, a window below eight frames grows by at least a quarter of a frame a
// round trip: by a share of itself alone, streams that have once become unequal
// would remain so.
//
// # Driving
//
// In one turn, the engine passes what arrived to OnAck, Check and Accept; calls
// OnTimer if Sender.Deadline has come; sends what Retransmit returns until it
// returns nothing, then new frames while Room allows, each through Push; and
// last a bare acknowledgement if Receiver.AckDue. It sleeps until the earlier
// Deadline.
