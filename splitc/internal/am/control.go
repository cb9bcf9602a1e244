package am

import (
	"context"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/splitc/internal/layer"
)

// Control messages are sent as requests. An answer to a control message is sent as the reply to its
// request: in a barrier, the messages up the tree are requests, and the messages down are their
// replies. Requests and replies use different connections, without an order between them. So
// control messages to a rank are numbered, and a message that arrives early waits for the ones
// before it.

// talk is the state of the control messages between this rank and another one.
type talk struct {
	sent  uint32                     // messages sent to it
	due   uint32                     // number of the next message from it
	early [layer.MaxControls]*letter // messages that arrived early, by number; allocated for the first
	asked endpoint.Deferred          // the last request that a control message answers,
	open  bool                       // if that answer has not been sent
}

// letter is a control message that waits for its turn.
type letter struct {
	full bool
	n    int
	buf  [layer.MaxControl]byte
}

// controlWay is how a control message is sent.
type controlWay uint8

const (
	said  controlWay = iota // a request that is answered at once
	asked                   // a request that the next control message to its sender answers
	told                    // the answer to such a request
)

// Control sends a control message. If there is an unanswered request for one, the message is its
// answer.
func (l *Layer) Control(ctx context.Context, proc int, msg []byte) error {
	p := &l.talks[proc]
	if !p.open {
		return l.say(ctx, proc, hControl, hControlMedium, msg)
	}
	p.open = false
	l.stats.Replies++
	var err error
	if w := l.head(p, msg); len(msg) > shortBytes {
		err = p.asked.ReplyMedium(hToldMedium, msg, w[:2]...)
	} else {
		err = p.asked.Reply(hTold, w...)
	}
	if p.sent++; err != nil {
		return l.failure(err)
	}
	return l.err
}

// Gather sends a control message that the rank answers with another one.
func (l *Layer) Gather(ctx context.Context, proc int, msg, data []byte) error {
	n := copy(l.gathered[:], msg)
	n += copy(l.gathered[n:], data)
	return l.say(ctx, proc, hAsk, hAskMedium, l.gathered[:n])
}

// say sends a control message as a request, which is short if the message fits.
func (l *Layer) say(ctx context.Context, proc int, short, medium uint8, msg []byte) (err error) {
	p := &l.talks[proc]
	if w := l.head(p, msg); len(msg) > shortBytes {
		err = l.request(ctx, proc, medium, msg, w[:2]...)
	} else {
		err = l.request(ctx, proc, short, nil, w...)
	}
	if err == nil {
		p.sent++
		l.controls++
	}
	return err
}

// head returns the arguments of the next control message to a rank: this rank, the message's
// number, and for a short one its length and contents.
func (l *Layer) head(p *talk, msg []byte) []uint32 {
	w := &l.words
	w[0], w[1] = uint32(l.cfg.Rank), p.sent
	if len(msg) > shortBytes {
		return w[:2]
	}
	w[2] = uint32(len(msg))
	return w[:3+l.pack(w[3:], msg)]
}

// control returns the handler of short control messages.
func (l *Layer) control(way controlWay) handler {
	return func(t endpoint.Token, a []uint32, _ []byte) bool {
		if len(a) < 3 || a[2] > shortBytes || int(a[2]) > 4*(len(a)-3) {
			return false
		}
		msg := l.message[:a[2]]
		unpack(msg, a[3:])
		return l.deliver(t, way, a[0], a[1], msg)
	}
}

// controlMedium returns the handler of medium control messages.
func (l *Layer) controlMedium(way controlWay) handler {
	return func(t endpoint.Token, a []uint32, data []byte) bool {
		return len(a) == 2 && len(data) <= layer.MaxControl && l.deliver(t, way, a[0], a[1], data)
	}
}

// deliver processes a control message, and answers it unless another message will.
func (l *Layer) deliver(t endpoint.Token, way controlWay, rank, number uint32, msg []byte) bool {
	if way == told {
		if l.controls == 0 || !l.other(rank) || !l.isOf(t, int(rank)) || !l.inTurn(int(rank), number, msg) {
			return false
		}
		l.controls--
		return true
	}
	from, ok := l.from(t, rank)
	if !ok || !l.inTurn(from, number, msg) {
		return false
	}
	if way == asked {
		p := &l.talks[from]
		l.release(p)
		var err error
		p.asked, err = t.Defer()
		p.open = err == nil
		return p.open
	}
	return l.reply(t, hControlDone)
}

// release answers a request that no control message has answered.
func (l *Layer) release(p *talk) {
	if p.open {
		p.open = false
		l.stats.Replies++
		_ = p.asked.Reply(hControlDone) // it was deferred and not answered
	}
}

// inTurn delivers a control message of a rank, and the messages that have waited for it, or stores
// it until its turn. It returns false for an invalid number.
func (l *Layer) inTurn(from int, number uint32, msg []byte) bool {
	p := &l.talks[from]
	switch ahead := number - p.due; {
	case ahead >= layer.MaxControls:
		return false
	case ahead > 0:
		return p.keep(number, msg)
	}
	l.cfg.Handler.Control(from, msg)
	for p.due++; ; p.due++ {
		e := p.early[p.due%layer.MaxControls]
		if e == nil || !e.full {
			return true
		}
		e.full = false
		l.cfg.Handler.Control(from, e.buf[:e.n])
	}
}

// keep stores a message that has arrived early, unless there already is one with its number.
func (p *talk) keep(number uint32, msg []byte) bool {
	e := &p.early[number%layer.MaxControls]
	if *e == nil {
		*e = new(letter)
	}
	if (*e).full {
		return false
	}
	(*e).full, (*e).n = true, copy((*e).buf[:], msg)
	return true
}

func (l *Layer) controlDone(_ endpoint.Token, a []uint32, _ []byte) bool {
	if len(a) != 0 || l.controls == 0 {
		return false
	}
	l.controls--
	return true
}
