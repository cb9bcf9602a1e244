// Package channels is the protocol between the control programs of cards of the emulated Myrinet:
// stop-and-wait over a few logical channels to each card (Chun, Mainwaring, Culler, "Virtual
// Network Transport Protocols for Myrinet", 1997, section 4). A channel has one packet in flight.
// Its bit alternates from message to message. Each transmission has a stamp, which its ACK or NACK
// echoes. An ACK means that the packet has been written to its endpoint, and frees the channel. A
// NACK gives the reason why it has not been written, and shows that the receiver is alive. Only a
// periodic scan retransmits packets that have no ACK; the scan is short because few packets are in
// flight to each card. If a packet gets no answer 255 times, its message is returned to the sender,
// and its channel must be initialized again.
//
// The stamp is the number of the transmission on its channel. The paper uses the time, with the
// restriction that a channel must not be idle for half the range of the clock. A receiver ignores
// packets that were sent before one that it has received. A sender accepts only answers to
// transmissions of the packet in flight. So the protocol does not depend on the order of arrival,
// which the paper's network guarantees.
//
// Channels initialize themselves. The first packet on an uninitialized channel carries a nonce of
// the sender instead of an epoch. The receiver does not accept it, because it could be an old
// duplicate. It answers with an epoch, and the sender retransmits the packet under that epoch at
// once. A receiver that has lost its state does not have the epoch, and sends a NACK (NackEpoch). The sender then
// returns the message, because it may have been delivered before.
//
// The following holds even if the network loses, duplicates, delays or reorders packets, and
// whenever either side restarts:
//
//   - A message is delivered at most once.
//   - It ends exactly once at its sender, acknowledged or returned, unless the sender restarts.
//   - An acknowledged message was delivered.
//   - A message that was refused, or that Unbind took from its channel and that was not sent again,
//     was not delivered.
//
// A message that is returned because no answer came, or because the receiver restarted, may have
// been delivered. No protocol can exclude that. The numbers that distinguish incarnations of a card
// have 32 bits.
//
// The package is pure: time is an argument, and nothing blocks or allocates in steady state.
package channels
