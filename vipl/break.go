package vipl

import (
	"encoding/binary"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/vipl/internal/guard"
)

// sendFarewell answers a frame that reaches a VI in the Error state: the peer
// has not heard yet, or has found an end of its own.
func (v *VI) sendFarewell(h *ethertype.Header) {
	v.drop(DropStale)
	if !v.plausible(h) {
		return
	}
	over := h.Kind == ethertype.KindDisconnect
	v.told = v.told || over
	switch {
	case !v.nic.answers.Take(guard.Reset, v.nic.now):
	case over:
		v.nic.sendReset(h)
	default:
		v.sendDisconnect(v.farewell)
	}
}

func (v *VI) receiveDisconnect(h *ethertype.Header, payload []byte) {
	why := reasonEnd
	if len(payload) > 0 {
		why = reason(payload[0]) // once: the peer may still write to it
	}
	if why >= reasonEnd {
		v.drop(DropFormat)
		return
	}
	if v.reliable {
		if progress, _ := v.tx.OnAck(v.nic.now, h.Ack, h.Sack, nil); progress {
			v.completeAcked()
		}
		if why.ofMessage() {
			v.fault = h.Msg
			v.completeReached()
		}
	}
	v.enterError(why.cause(), "the peer says so", why)
	v.told = true
	v.nic.sendReset(h) // so that the peer need not say it again
}

// resetSize is the payload of a KindReset frame: the tag of the frame that it
// answers, as proof that its sender saw it, and the incarnation of the NIC.
const resetSize = 12

func putReset(b []byte, tag uint32, incarnation uint64) {
	binary.BigEndian.PutUint32(b, tag)
	binary.BigEndian.PutUint64(b[4:], incarnation)
}

// sendReset answers h: there is no such connection here, or no longer. It says what h
// said, crosswise, as if it were a frame of the connection: who has sent h can tell that
// this is the answer.
func (n *NIC) sendReset(h *ethertype.Header) {
	var body [resetSize]byte
	putReset(body[:], h.Tag, n.incarnation)
	n.sendControl(ethertype.Header{
		Dst: h.Src, Kind: ethertype.KindReset, DstPort: h.SrcPort, SrcPort: h.DstPort, Seq: h.Ack, Ack: h.Seq,
	}, body[:])
}

// receiveReset handles the answer to a frame for a connection that the peer
// does not have, or has no longer. It counts only if it proves to be about this
// one, or about one that this side has left.
func (n *NIC) receiveReset(h *ethertype.Header, payload []byte) {
	if !n.alone(h) {
		return
	}
	if len(payload) < resetSize {
		n.drop(DropStale)
		return
	}
	v, tag := n.viAt(h.DstPort), binary.BigEndian.Uint32(payload)
	if v == nil || h.Src != v.remote.MAC || h.SrcPort != v.remote.Port || tag != v.remoteTag {
		if !n.ghosts.confirm(n, h, tag) {
			n.drop(DropStale)
		}
		return
	}
	if !v.answered(h) {
		v.drop(DropAck)
		return
	}
	if v.state == StateConnectPending && v.hs.awaits() {
		v.hs.finish(v, &ConnError{Local: v.Local(), Remote: v.remote, Err: ErrDisconnected, Detail: "it gave up in the middle of the handshake"})
		return
	}
	if v.state == StateError {
		v.told = true
		return
	}
	if v.state != StateConnected {
		v.drop(DropStale)
		return
	}
	if binary.BigEndian.Uint64(payload[4:]) != v.incarnation {
		v.enterError(ErrPeerReset, "another process answers at its address now", reasonSilent)
		return
	}
	v.enterError(ErrDisconnected, "it no longer has this connection", reasonLeft)
}

// answered reports whether h, a Reset with the right tag, answers a frame of v's: it
// says what that has said. On the unreliable level there is no telling how long ago a
// frame of some number was sent.
func (v *VI) answered(h *ethertype.Header) bool {
	if !v.reliable {
		return h.Seq == v.rx.Next()
	}
	return v.genuine(h)
}
