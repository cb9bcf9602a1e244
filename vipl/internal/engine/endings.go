package engine

import (
	"encoding/binary"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/drops"
	"github.com/bobnet-go/bobnet/vipl/internal/code"
	"github.com/bobnet-go/bobnet/vipl/internal/conn"
	"github.com/bobnet-go/bobnet/vipl/internal/guard"
)

// answerEnded answers a frame for a connection in the Error state: the peer has not been notified
// yet, or has ended the connection for its own reason.
func (m *Machine) answerEnded(c *conn.Conn, h *ethertype.Header) {
	c.Drop(drops.Stale)
	if !c.Plausible(h) {
		return
	}
	over := h.Kind == ethertype.KindDisconnect
	c.End.Told = c.End.Told || over
	switch {
	case !m.Strangers.Answers.Allow(guard.Reset, m.Now()):
	case over:
		m.SendReset(h)
	default:
		c.SendDisconnect(c.End.Why)
	}
}

// receiveReset handles the answer to a frame for a connection that the peer does not have, or no
// longer has. The answer counts only if it is verified to be about this connection, or about one
// that this side has left.
func (m *Machine) receiveReset(h *ethertype.Header, payload []byte) {
	if !m.addressedHere(h) {
		return
	}
	if len(payload) < conn.ResetSize {
		m.Drop(drops.Stale)
		return
	}
	c, tag := m.Ports.Conn(h.DstPort), binary.BigEndian.Uint32(payload)
	if c == nil || h.Src != c.Remote.MAC || h.SrcPort != c.Remote.Port || tag != c.RemoteTag {
		if !m.Ended.confirm(h, tag) {
			m.Drop(drops.Stale)
		}
		return
	}
	if !c.Answered(h) {
		c.Drop(drops.Ack)
		return
	}
	if c.State == code.StateConnectPending && m.Ports.side(h.DstPort).Reset() {
		return
	}
	if c.State == code.StateError {
		c.End.Told = true
		return
	}
	if c.State != code.StateConnected {
		c.Drop(drops.Stale)
		return
	}
	if binary.BigEndian.Uint64(payload[4:]) != m.Ports.side(h.DstPort).PeerIncarnation {
		c.EnterError(code.ErrPeerReset, "another process answers at its address now", code.ReasonSilent)
		return
	}
	c.EnterError(code.ErrDisconnected, "it no longer has this connection", code.ReasonLeft)
}
