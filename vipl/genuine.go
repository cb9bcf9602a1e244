package vipl

import "github.com/bobnet-go/bobnet/ethertype"

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
// A Request is of anybody; see backlog.go and peer.go.

// genuine reports whether h, whose tag and sender are right, is of the connection's
// peer: it says what the peer may have received, and its number is near that which is
// expected of it. On the unreliable level, where nothing is acknowledged, all frames
// say the other side's first number, and the filter judges their own.
func (v *VI) genuine(h *ethertype.Header) bool {
	if !v.reliable {
		return h.Ack == v.tx.NextSeq()
	}
	return v.tx.InWindow(h.Ack) && v.rx.InWindow(h.Seq)
}

// plausible reports whether h, the word that the connection is over, is the peer's: one
// of what genuine asks for is enough, because the connection may have ended over the
// other. That leaves 52 bits to guess.
func (v *VI) plausible(h *ethertype.Header) bool {
	if !v.reliable {
		return v.genuine(h)
	}
	return v.tx.InWindow(h.Ack) || v.rx.InWindow(h.Seq)
}

// forgery returns what to count a frame as that is not genuine.
func (v *VI) forgery(h *ethertype.Header) Drop {
	switch {
	case !v.reliable || !v.tx.InWindow(h.Ack):
		return DropAck
	case h.Seq.Less(v.rx.Next()):
		return DropDuplicate
	}
	return DropAhead
}
