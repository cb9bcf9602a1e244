// Package reliability contains the state machines that make a lossy link a reliable connection: one
// Sender and one Receiver for each side of each connection.
//
// A program that uses vipl needs two types: Level is the reliability of a connection
// (vipl.Attributes), and Config sets timeouts and windows (vipl.Config.Reliability). The other types
// are for a program that sends and receives frames itself and makes its own connections reliable.
//
// The state machines are pure. Time is an argument (monotonic nanoseconds), frames are values, and
// nothing blocks, allocates in steady state, locks or draws random numbers. The simulator runs the
// same code in virtual time.
//
// # Levels
//
// VIA has three levels. Unreliable uses only the Receiver's duplicate suppression. ReliableDelivery
// and ReliableReception use the same protocol. They differ in when a send completes (see
// Sender.Acked), and in the sender's error if the receiver cannot accept a message.
package reliability

// Notes for maintainers, which go doc does not print.
//
// # Protocol
//
// Each sequenced frame has a 32-bit sequence number, and keeps it in retransmissions. The receiver acknowledges
// cumulatively (the next number that it expects) and selectively (a bitmap of later frames that it has), in every
// frame that it sends back. It sends a bare acknowledgement in these cases: after a short delay, which is longer
// while frames are answered soon (talk.go); every few frames; on a gap; and if the sender requests it with
// FlagAckNow. A requested acknowledgement is sent at once; while frames are answered soon, it is sent when the
// program waits. The sender requests acknowledgements when its window fills, so that the delay never stops it.
//
// A frame is lost if a later frame has been acknowledged and the frame is late by more than a reordering window
// (time-based, as RACK in RFC 8985). The window grows when frames turn out to have been reordered and not lost. If
// the tail of a flight stays unacknowledged for two round trips, a probe sends the last frame again, to provoke an
// acknowledgement (TLP in RFC 8985). A timeout of at least 10 ms is a thousand round trips on a segment. So up to
// eight probes, at increasing intervals, precede the first timeout. Each probe is one frame, or four if many frames
// are lost without a queue (see below). Only then does the retransmission timer expire. It backs off exponentially,
// and after a bounded number of expiries without an answer the connection fails with ErrUnreachable. If only the
// peer's process slept, the next arrival shows it (F-RTO, RFC 5682), and nothing else is sent twice. So negative
// information (selective acknowledgements, gaps) drives repair, and positive information drives the window. The
// Bobnet paper (section 7) left this combination as future work.
//
// The congestion window counts frames. It starts at ten and doubles each round trip until the first loss. Then it
// grows by one frame a round trip, or by a sixteenth of itself below eight frames. It shrinks at most once a round
// trip, to seven tenths, or to half below eight frames. It may fall to an eighth of a frame: frames are then paced,
// less than one per round trip, so that many senders can share a queue shorter than their number. A reaction to a
// loss that turns out to be a mistake is undone.
//
// # Loss without congestion
//
// A frame may also be lost because it was corrupted. Slowing down then has no benefit and a high cost. With a window
// of w frames and a loss rate of p, the decrease and increase of small windows balance at about w = 1/(8p). In such a
// small flight no frame follows a lost frame to reveal the loss at once. On a 10 Gb/s wire, 5 % of loss left one
// stream a fortieth of the bandwidth.
//
// Above 25 % of loss even the probes are lost, and with each the chance to learn what else is missing. If half of the
// frames are lost in each direction, one probe in four is answered, and timeouts double meanwhile. So if the round
// trips show no queue, a probe, or the frame of a timeout, is sent with three more frames: the oldest of the flight,
// then new ones, and from the second probe on the same ones again. The window is unchanged, and the timer bounds the
// rate. A message of 55 frames then takes 9 ms at 30 % of loss and 16 ms at 51 %, instead of 186 ms and 17 s (round
// trip 20 µs; TestHeavyLoss).
//
// Delay alone does not indicate congestion here, because hosts cause more delay than networks. But the absence of
// delay indicates its absence. If a full queue loses frames, the frames next to them have waited in it. So a loss
// does not shrink the window if the frame that reveals it arrived with about the smallest delay. TCP Veno decides by
// the backlog, which it estimates as TCP Vegas does, from the round trip over the smallest one (Fu and Liew, "TCP
// Veno: TCP Enhancement for Transmission over Wireless Access Networks", IEEE JSAC 21(2), 2003). With dozens of
// senders to one receiver, the backlog of each is a frame or less. So here the delay itself decides, as in the Spike
// scheme of Cen, Cosman and Voelker ("End-to-end differentiation of congestion and wireless losses", IEEE/ACM
// Transactions on Networking 11(5), 2003). The delay must be within 4 µs of the smallest of the last seconds, or
// within one and a half times the mean deviation, which is what hosts add. In addition, the recent loss rate must be
// below an eighth, which bounds the harm if the inference is wrong.
//
// The inference is wrong if a queue is too short to be detected, with four full frames or fewer at 10 Gb/s, and for a
// connection that has never found the queue empty. It does not apply if delays vary so much that none is near the
// smallest, and above an eighth of loss. A receiver that is too slow fills its ring before it loses frames, and a
// full ring delays frames like the queue of a switch. While no queue is detected, a window below eight frames grows
// by at least a quarter of a frame a round trip. If it grew only in proportion to itself, streams with unequal
// windows would stay unequal.
//
// # Driving
//
// In one turn, the engine does the following:
//
//   - It passes received frames to OnAck, Check and Accept.
//   - It calls OnTimer if Sender.Deadline has passed.
//   - It sends the frames that Retransmit returns until there are none, and then new frames while Room allows, each
//     recorded with Push.
//   - It sends a bare acknowledgement if Receiver.AckDue.
//
// It sleeps until the earlier of the two Deadlines.
