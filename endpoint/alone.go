package endpoint

import (
	"github.com/bobnet-go/bobnet/endpoint/internal/provider"
	"github.com/bobnet-go/bobnet/endpoint/internal/wire"
)

// Messages that return alone
//
// A provider may fail to deliver one message and keep the connection. The returned message is one
// of two kinds:
//
//   - A request or a reply. It goes to the ReturnHandler of its sender, and the other side is
//     notified not to wait for it. A skip replaces a request: the server handles it in the
//     request's turn, and ends what the request may have started. A done replaces a reply, and a
//     return replaces the data of a get.
//   - Any other message, including these replacements. It is retransmitted once. If it returns
//     again, the connection breaks, because neither side could continue.

// Undelivered implements half.
func (c *client) Undelivered(at int, reason wire.Reason) {
	switch i := at - len(c.slots); {
	case c.closed || c.reason != 0:
		return
	case i < 0:
		c.requestLost(at, reason)
	case c.slots[i].again:
		c.Broken(reason, nil)
		return
	default:
		c.slots[i].again = true
		c.ch.Post(at, c.slots[i].length, 0)
	}
	c.Sent()
}

// requestLost returns the request in slot i to its sender, and makes the server skip it.
func (c *client) requestLost(i int, reason wire.Reason) {
	s := &c.slots[i]
	if s.state != slotWaiting || s.cleared || s.hole { // the server has answered, so it did arrive
		return
	}
	s.state, s.hole, s.why = slotLost, true, reason
	s.placed = provider.Packet{Slot: i}
	c.queue.Push(&s.placed)
	c.owe(i, wire.KindSkip)
	c.ready()
}

// holeAnswered handles a message for a slot whose request has returned alone. If the message ends
// the request at the server, it ends the request here too. It may be the answer to the skip, or to
// the request itself, which the provider reported as lost.
func (c *client) holeAnswered(s *slot, p *provider.Packet) {
	kind, i := p.Head.Kind, int(p.Head.Slot)
	if kind == wire.KindDone {
		c.ch.Release(p)
	} else {
		c.stray(p)
	}
	if kind == wire.KindClear || kind == wire.KindReplyAnnounce { // the skip may have arrived before this began
		if s.owed == 0 {
			c.owe(i, wire.KindSkip)
		}
		return
	}
	c.fillHole(s)
	if s.state == slotSkipping {
		c.free(i)
	}
}

// fillHole records that the server no longer waits for a message of slot s.
func (c *client) fillHole(s *slot) {
	s.hole = false
	if s.owed != 0 {
		s.owed = 0
		c.owing--
	}
}

// owe sends a message of a kind (refuse or skip) for slot i, as soon as the slot's second send buffer is idle.
func (c *client) owe(i int, kind wire.Kind) {
	s := &c.slots[i]
	if s.second && !c.ch.Idle(len(c.slots)+i) {
		s.owed = kind
		c.owing++
		return
	}
	h := wire.Header{Kind: kind}
	if kind == wire.KindRefuse {
		h.Reason = s.why
	}
	c.control(i, &h, nil)
}

// payOwed sends the owed messages of slots whose buffers have become idle.
func (c *client) payOwed() {
	for i := range c.slots {
		if s := &c.slots[i]; s.owed != 0 && c.ch.Idle(len(c.slots)+i) {
			kind := s.owed
			s.owed = 0
			c.owing--
			c.owe(i, kind)
		}
	}
}

// Undelivered implements half.
func (s *server) Undelivered(at int, reason wire.Reason) {
	i := at % len(s.slots)
	slot := &s.slots[i]
	switch {
	case s.closed || s.reason != 0 || at != s.last(i) || slot.held != nil: // the client has gone on, so it did arrive
	case slot.answer != 0 && (slot.state == serverIdle || slot.state == serverAnnounced):
		if slot.state == serverAnnounced && slot.head.Kind == wire.KindGet {
			s.letGo(slot)
		}
		s.replyLost(i, reason)
	case slot.state != serverIdle && slot.state != serverGranted:
	case slot.again:
		s.Broken(reason, nil)
	default:
		slot.again = true
		s.ch.Post(at, slot.n, 0)
	}
	s.Sent()
}

// replyLost returns the reply of slot i to its sender.
func (s *server) replyLost(i int, reason wire.Reason) {
	slot := &s.slots[i]
	slot.state, slot.why, slot.placed = serverLost, reason, provider.Packet{Slot: i}
	s.waitsTurn(&slot.placed)
}

// giveUp gives up on the reply of slot i. The server has handled the request, but its sender may
// wait for its end. So the request returns to its sender.
func (s *server) giveUp(i int) {
	slot := &s.slots[i]
	if slot.head.Kind == wire.KindGet {
		s.answerInPlace(i)
		s.fail(i, slot.why)
		return
	}
	s.begin(i, nil)
	s.replied = false
	s.comeBack(i, slot.why, nil)
}

// answerInPlace builds the next answer of slot i in the buffer of the last one, if that buffer is
// idle. If it is not, the other buffer is idle.
func (s *server) answerInPlace(i int) {
	if s.ch.Idle(s.last(i)) {
		s.slots[i].posts++
	}
}

// skipped ends the work that a returned request has started: the server no longer waits for the
// request's data, and its bulk reply returns. A request that is not handled yet, or has an answer,
// ends with its answer.
func (s *server) skipped(i int, p *provider.Packet) {
	s.ch.Release(p)
	switch slot := &s.slots[i]; slot.state {
	case serverGranted:
		s.ch.Revoke(i)
		s.ep.grants--
		s.finish(i)
	case serverAnnounced:
		if slot.head.Kind == wire.KindGet {
			s.letGo(slot)
		}
		s.replyLost(i, wire.ReasonUnreachable)
	}
}
