package conn

import (
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/drops"
)

// Any host on the segment can forge the source address of a frame. An off-path attacker, which
// does not receive the connection's frames, does not know its tags and sequence numbers. Each frame
// must therefore carry the tag, of 32 bits, and numbers that both sides know (as in RFC 5961):
//
//	kind                                    required                                         bits to guess
//	sequenced, Ack                          its number and an acknowledgement, in a window   74
//	sequenced, on the unreliable level      the receiver's first number                      64
//	Probe, ProbeAck during a handshake      the receiver's first number                      64
//	the same on a connection                as sequenced frames                              74, 64
//	Retry, Accept, Reject                   the receiver's first number                      64
//	Disconnect                              its number or an acknowledgement, in a window    52
//	Reset                                   both numbers of a frame that it answers          74, 64
//
// Other frames have no effect, are not answered, and do not show that the peer is alive. Any
// station may send a Request; see package handshake.

// Genuine reports whether h, whose tag and sender are valid, was sent by the connection's peer: it
// acknowledges only what the peer may have received, and its number is near the expected one. On
// the unreliable level, without acknowledgements, all frames carry the other side's first number,
// and the filter checks their own.
func (c *Conn) Genuine(h *ethertype.Header) bool {
	if !c.Reliable {
		return h.Ack == c.tx.sender.NextSeq()
	}
	return c.tx.sender.InWindow(h.Ack) && c.rx.receiver.InWindow(h.Seq)
}

// Plausible reports whether h, a notification that the connection has ended, was sent by the peer.
// One of Genuine's conditions suffices, because the connection may have ended over the other. An
// attacker has to guess 52 bits.
func (c *Conn) Plausible(h *ethertype.Header) bool {
	if !c.Reliable {
		return c.Genuine(h)
	}
	return c.tx.sender.InWindow(h.Ack) || c.rx.receiver.InWindow(h.Seq)
}

// forgery returns the counter for a frame that is not genuine.
func (c *Conn) forgery(h *ethertype.Header) drops.Reason {
	switch {
	case !c.Reliable || !c.tx.sender.InWindow(h.Ack):
		return drops.Ack
	case h.Seq.Less(c.rx.receiver.Next()):
		return drops.Duplicate
	}
	return drops.Ahead
}

// Answered reports whether h, a Reset with a valid tag, answers a frame of c: it repeats the
// frame's numbers. On the unreliable level it is unknown how long ago a frame of some number was
// sent.
func (c *Conn) Answered(h *ethertype.Header) bool {
	if !c.Reliable {
		return h.Seq == c.rx.receiver.Next()
	}
	return c.Genuine(h)
}
