package handshake

import (
	"fmt"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/vipl/internal/code"
	"github.com/bobnet-go/bobnet/vipl/internal/conn"
)

// lateStep is the delay of a step, in nanoseconds, from which the process counts as not having been
// scheduled.
const lateStep = int64(250e6)

// excuse extends a pending attempt by the time in which this process was not scheduled, because
// nothing was sent then.
func (s *Side) excuse(now int64) {
	if late := now - s.attempt.Due(); late > lateStep {
		s.attempt.Deadline += late
	}
}

// Step sends the frames of a pending attempt's phase. It is called when it is due.
func (s *Side) Step() {
	a, t := s.attempt, s.table
	now := t.shared.Now()
	s.excuse(now)
	if now >= a.Deadline {
		s.timeOut()
		return
	}
	if now < a.Next || !t.attempts.Admit(&a.Attempt, stages[a.phase], now) {
		return
	}
	if a.serial && a.request.HoldsUp(now) {
		s.passOver()
		return
	}
	t.attempts.Sends(&a.Attempt, now)
	switch a.phase {
	case phaseRequest:
		s.sendInfo(ethertype.Header{Kind: ethertype.KindRequest, Sack: a.token})
	case phaseAccept:
		s.sendInfo(ethertype.Header{Kind: ethertype.KindAccept, Tag: s.conn.RemoteTag, Seq: a.local, Ack: a.remote})
	case phaseProbe:
		if s.conn.Path.Narrow(conn.NarrowCertain) {
			s.Fail(code.ErrInvalidMTU, s.conn.Path.MTUDetail())
			return
		}
		a.tries++
		s.conn.Path.Probe(a.tries)
	}
}

// restart makes an attempt that has progressed send at once.
func (s *Side) restart() {
	now := s.table.shared.Now()
	s.excuse(now)
	s.attempt.Restart(now)
	s.table.attempts.Resume(&s.attempt.Attempt, now)
	s.Step()
}

// answered records that the peer's NIC has answered the attempt.
func (s *Side) answered() { s.table.attempts.Answered(&s.attempt.Attempt, s.table.shared.Now()) }

// sendInfo sends h, a Request or an Accept, with this side's Info.
func (s *Side) sendInfo(h ethertype.Header) {
	c := s.describe()
	h.Dst, h.DstPort, h.SrcPort = s.conn.Remote.MAC, s.conn.Remote.Port, s.conn.Port
	s.table.shared.SendControl(h, c.Append(make([]byte, 0, InfoSize+MaxData)))
}

// describe returns this side's Info.
func (s *Side) describe() Info {
	a, t := s.attempt, s.table
	terms := s.Terms
	terms.WholeCRC = terms.WholeCRC || t.info.Unprotected // the peer's link may differ
	asks := a.phase == phaseRequest
	return Info{
		Incarnation: t.shared.Incarnation(), Tag: s.conn.LocalTag, Seq: a.local, MTU: uint32(t.hooks.MTU(s.conn.Remote.MAC)),
		Terms: terms, Data: a.data, Long: asks && s.conn.Path.MayUseLong() || a.phase == phaseAccept && s.conn.Path.Long,
		Peer: asks && a.peer != nil, Named: asks && a.named, More: true,
	}
}

// timeOut fails an attempt whose deadline has passed, and reports the likely cause.
func (s *Side) timeOut() {
	a, t := s.attempt, s.table
	if trouble := t.hooks.Trouble(s.conn.Remote.MAC); trouble != nil {
		if s.attempt != nil { // otherwise the check has ended it
			s.Fail(fmt.Errorf("%w: %w", code.ErrTimeout, trouble), "")
		}
		return
	}
	detail := "no answer: is the peer running, is its interface up and on this segment?"
	switch {
	case a.phase == phaseProbe && s.conn.Path.Narrow(conn.NarrowLikely):
		s.Fail(code.ErrInvalidMTU, s.conn.Path.MTUDetail())
		return
	case a.phase == phaseProbe && s.conn.Path.Lossy() != "":
		detail = s.conn.Path.Lossy()
	case a.phase == phaseRequest && a.peer != nil:
		detail = fmt.Sprintf("the peer did not ask for %v with the same discriminator: is its program running, and does it name this NIC?", t.nic)
	case a.phase == phaseRequest && s.conn.Remote.MAC == t.info.MAC:
		detail = "no answer on this host: is the peer running? If it is another user's, both sides need Config.AnyUser"
	case a.phase == phaseRequest:
		detail += fmt.Sprintf(" (try: bobnet ping %v)", s.conn.Remote.MAC)
	case a.phase != phaseRequest:
		detail = "the peer stopped answering in the middle of the handshake"
	}
	s.Fail(code.ErrTimeout, detail)
}

// passOver gives up a requester that does not answer, and removes its request. If the requester is
// alive after all, its repetition counts as a new request.
func (s *Side) passOver() {
	s.attempt.request.Forget()
	s.attempt.request = nil
	s.Fail(code.ErrTimeout, "the requester does not answer, and others wait to be accepted")
}
