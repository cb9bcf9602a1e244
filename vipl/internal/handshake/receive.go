package handshake

import (
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/drops"
	"github.com/bobnet-go/bobnet/vipl/internal/code"
	"github.com/bobnet-go/bobnet/vipl/internal/conn"
	"github.com/bobnet-go/bobnet/vipl/internal/guard"
)

// addressed reports whether a frame of the handshake with the right tag belongs to the current or
// the last attempt.
func (s *Side) addressed(h *ethertype.Header) bool {
	if s.conn.State == code.StateConnectPending {
		return h.Ack == s.attempt.local
	}
	return s.conn.Genuine(h)
}

// pending reports whether an attempt is in the given phase, with the sender's port as its peer's
// port.
func (s *Side) pending(p phase, h *ethertype.Header) bool {
	return s.conn.State == code.StateConnectPending && s.attempt.phase == p && h.SrcPort == s.conn.Remote.Port
}

// receiveRetry repeats the request with the token.
func (s *Side) receiveRetry(h *ethertype.Header) {
	if !s.pending(phaseRequest, h) || h.Sack == s.attempt.token {
		s.conn.Drop(drops.Stale)
		return
	}
	if s.attempt.peer == nil { // otherwise it waits until the other program asks
		s.answered()
	}
	s.attempt.token = h.Sack
	s.restart()
}

func (s *Side) receiveAccept(h *ethertype.Header, payload []byte) {
	c, ok := ParseInfo(payload)
	if !ok || s.conn.State != code.StateConnectPending || s.attempt.phase != phaseRequest {
		s.conn.Drop(drops.Stale) // or a repetition: the probe's own timer answers it
		return
	}
	if s.differs(&c.Terms) >= 0 { // the server has already compared them: the peer violates the protocol
		s.conn.Drop(drops.Format)
		return
	}
	s.adopt(sender(h), &c)
	s.attempt.phase = phaseProbe
	s.conn.Path.BeginProbes()
	s.restart()
}

// receiveProbe handles a probe. A full-size one completes the server's part. Every probe is
// answered in its own size, even if it is repeated because its answer was lost.
func (s *Side) receiveProbe(h *ethertype.Header) {
	pending := s.pending(phaseAccept, h)
	if !pending && (s.conn.State != code.StateConnected || h.SrcPort != s.conn.Remote.Port) {
		s.conn.Drop(drops.Stale)
		return
	}
	size := s.conn.Path.SizeOf(h)
	switch {
	case size == conn.ProbeOther, size == conn.ProbeAsks && pending:
		s.conn.Drop(drops.Format)
		return
	case size == conn.ProbeAsks:
		s.conn.Path.AnswerLong()
		return
	case size == conn.ProbeLong:
		s.conn.Path.HeardCut(true)
	}
	if pending && s.attempt.request != nil {
		s.attempt.request.Heard(s.table.shared.Now())
	}
	if pending && size == conn.ProbeFull {
		s.connect()
	}
	s.conn.Path.SendProbe(ethertype.KindProbeAck, int(h.Size))
}

func (s *Side) receiveProbeAck(h *ethertype.Header) {
	if s.conn.State == code.StateConnected && h.SrcPort == s.conn.Remote.Port { // to a probe that the connection sent
		s.conn.Path.Answered(h)
		return
	}
	if !s.pending(phaseProbe, h) {
		s.conn.Drop(drops.Stale)
		return
	}
	switch s.conn.Path.SizeOf(h) {
	case conn.ProbeShort:
		s.conn.Path.Answered(h)
	case conn.ProbeFull:
		s.answered()
		s.connect()
	default:
		s.conn.Drop(drops.Format)
	}
}

// The codes of KindReject, its first payload byte. Text may follow: after rejectRefused the
// server's text, and after a mismatch of terms the value of the refusing side.
const (
	rejectNoListener byte = iota
	rejectRefused
	rejectBacklog
	rejectReliability // peer to peer: the terms do not match
	rejectTransfer
	rejectQoS
)

func (s *Side) receiveReject(h *ethertype.Header, payload []byte) {
	if len(payload) < 1 || !s.pending(phaseRequest, h) {
		s.conn.Drop(drops.Stale)
		return
	}
	text := guard.Printable(payload[1:min(len(payload), 1+MaxData)])
	switch reject := payload[0]; reject { // read once: the peer may still write to it
	case rejectNoListener:
		s.Fail(code.ErrNoMatch, "start the server first, or try again")
	case rejectBacklog: // try again later
	case rejectReliability, rejectTransfer, rejectQoS:
		i := int(reject - rejectReliability)
		s.Fail(agreed[i].err, s.mismatch(i, text))
	default:
		s.Fail(code.ErrReject, text)
	}
}
