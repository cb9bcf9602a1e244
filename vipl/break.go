package vipl

import (
	"encoding/binary"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/vipl/internal/conn"
	"github.com/bobnet-go/bobnet/vipl/internal/guard"
)

// answerEnded answers a frame that reaches a VI in the Error state: the peer
// has not heard yet, or has found an end of its own.
func (v *VI) answerEnded(h *ethertype.Header) {
	v.conn.Drop(DropStale)
	if !v.conn.Plausible(h) {
		return
	}
	over := h.Kind == ethertype.KindDisconnect
	v.conn.End.Told = v.conn.End.Told || over
	switch {
	case !v.nic.strangers.Answers.Take(guard.Reset, v.nic.conns.Now):
	case over:
		v.nic.conns.SendReset(h)
	default:
		v.conn.SendDisconnect(v.conn.End.Why)
	}
}

// receiveReset handles the answer to a frame for a connection that the peer
// does not have, or has no longer. It counts only if it proves to be about this
// one, or about one that this side has left.
func (n *NIC) receiveReset(h *ethertype.Header, payload []byte) {
	if !n.addressedHere(h) {
		return
	}
	if len(payload) < conn.ResetSize {
		n.conns.Drop(DropStale)
		return
	}
	v, tag := n.ports.vi(h.DstPort), binary.BigEndian.Uint32(payload)
	if v == nil || h.Src != v.conn.Remote.MAC || h.SrcPort != v.conn.Remote.Port || tag != v.conn.RemoteTag {
		if !n.ended.confirm(n, h, tag) {
			n.conns.Drop(DropStale)
		}
		return
	}
	if !v.conn.Answered(h) {
		v.conn.Drop(DropAck)
		return
	}
	if v.conn.State == StateConnectPending && v.side.Reset() {
		return
	}
	if v.conn.State == StateError {
		v.conn.End.Told = true
		return
	}
	if v.conn.State != StateConnected {
		v.conn.Drop(DropStale)
		return
	}
	if binary.BigEndian.Uint64(payload[4:]) != v.side.PeerIncarnation {
		v.conn.EnterError(ErrPeerReset, "another process answers at its address now", conn.ReasonSilent)
		return
	}
	v.conn.EnterError(ErrDisconnected, "it no longer has this connection", conn.ReasonLeft)
}
