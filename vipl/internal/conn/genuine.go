package conn

import (
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/drops"
)

// Anybody on the segment can send a frame in the name of a connection's peer. What he
// cannot know, unless he hears the connection's frames, are its tags and its numbers.
// So each frame has, besides the tag, which is 32 bits, to tell of numbers that both
// sides know (the reasoning of RFC 5961):
//
//	kind                                    what it has to tell                              bits, with the tag
//	sequenced, Ack                          its number and an acknowledgement, in a window   74
//	sequenced, on the unreliable level      the receiver's first number                      64
//	Probe, ProbeAck to one that connects    the receiver's first number                      64
//	the same to one that is connected       as those of the connection                       74, 64
//	Retry, Accept, Reject                   the receiver's first number                      64
//	Disconnect                              its number or an acknowledgement, in a window    52
//	Reset                                   both numbers of a frame that it answers          74, 64
//
// What tells something else has no effect, is not answered, and is no sign of life.
// A Request may come from anybody; see package handshake.

// Genuine reports whether h, whose tag and sender are right, is of the connection's
// peer: it says what the peer may have received, and its number is near that which is
// expected of it. On the unreliable level, where nothing is acknowledged, all frames
// say the other side's first number, and the filter judges their own.
func (c *Conn) Genuine(h *ethertype.Header) bool {
	if !c.Reliable {
		return h.Ack == c.tx.sender.NextSeq()
	}
	return c.tx.sender.InWindow(h.Ack) && c.rx.receiver.InWindow(h.Seq)
}

// Plausible reports whether h, the word that the connection is over, is the peer's: one
// of what genuine asks for is enough, because the connection may have ended over the
// other. That leaves 52 bits to guess.
func (c *Conn) Plausible(h *ethertype.Header) bool {
	if !c.Reliable {
		return c.Genuine(h)
	}
	return c.tx.sender.InWindow(h.Ack) || c.rx.receiver.InWindow(h.Seq)
}

// forgery returns what to count a frame as that is not genuine.
func (c *Conn) forgery(h *ethertype.Header) drops.Reason {
	switch {
	case !c.Reliable || !c.tx.sender.InWindow(h.Ack):
		return drops.Ack
	case h.Seq.Less(c.rx.receiver.Next()):
		return drops.Duplicate
	}
	return drops.Ahead
}

// Answered reports whether h, a Reset with the right tag, answers a frame of c's: it
// says what that has said. On the unreliable level there is no telling how long ago a
// frame of some number was sent.
func (c *Conn) Answered(h *ethertype.Header) bool {
	if !c.Reliable {
		return h.Seq == c.rx.receiver.Next()
	}
	return c.Genuine(h)
}
