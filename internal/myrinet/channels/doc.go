// Package channels is the protocol between the control programs of cards of the emulated Myrinet:
// stop and wait over a few logical channels to each card (Chun, Mainwaring, Culler,
// "Virtual Network Transport Protocols for Myrinet", 1997, section 4). A channel has one
// packet under way. Its bit alternates from message to message; each transmission has a
// stamp, which its ACK or NACK echoes. An ACK means that the packet is written into its
// endpoint, and frees the channel. A NACK says why it is not, and that the receiver lives.
// What has no ACK goes again by a periodic scan, and by nothing else; the number of
// packets under way to each card keeps it short. The message of a packet that went
// unanswered 255 times is returned to its sender, and the sequence of its channel is
// uninitialised.
//
// The stamp is the number of the transmission on its channel; the paper takes the time,
// after which a channel may not be idle for half the range of the clock. A receiver
// ignores what was sent before something that has come, and a sender takes answers only to
// what it has sent of the packet that is under way. So no order of arrival is needed,
// which the paper has from its network.
//
// Channels initialise themselves. The first packet of an uninitialised one carries a
// number of the sender's own instead of an epoch. It is not taken, because it could be one
// of long ago, but answered with an epoch, under which it goes again at once. A receiver
// that has lost its state knows no epoch and says so; then the message is returned,
// because it may have been delivered before.
//
// What holds, whatever the network loses, copies, delays or overtakes, and whenever either
// side begins anew: a message is delivered at most once, and ends once for its sender,
// acknowledged or returned (unless the sender begins anew itself). One that is acknowledged
// was delivered. One that is refused, or was taken from its channel by Unbind and not sent
// again, was not. What cannot hold: one that is returned because no answer came, or because
// the receiver began anew, may have been delivered all the same. The numbers that tell the
// lives of a card apart have 32 bits.
//
// The package is pure: time is an argument, and nothing blocks or allocates in steady state.
package channels
