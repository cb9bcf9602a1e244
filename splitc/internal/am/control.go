package am

import (
	"context"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/splitc/internal/layer"
)

// Control messages go as requests, and those that answer others as their replies: of a barrier
// all that goes up the tree are requests, and all that goes down are their replies. The two go
// by different connections, which keep no order between them. So control messages to a rank
// are numbered, and one that comes early waits for those before it.

// talk is what goes between this rank and another one by control messages.
type talk struct {
	sent  uint32                     // to it, so far
	due   uint32                     // number of the next one from it
	early [layer.MaxControls]*letter // those that came too early, by number; made for the first
	asked endpoint.Deferred          // the last request that is answered by a control message,
	open  bool                       // if that has not been sent
}

// letter is a control message that waits for its turn.
type letter struct {
	full bool
	n    int
	buf  [layer.MaxControl]byte
}

// The ways of a control message.
type controlWay uint8

const (
	said  controlWay = iota // a request that is answered at once
	asked                   // a request that the next control message to its sender answers
	told                    // that answer
)

// Control sends a control message, as the answer to the last one that asked for it if there
// is one.
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

// Gather sends a control message that the rank answers by another one.
func (l *Layer) Gather(ctx context.Context, proc int, msg, data []byte) error {
	n := copy(l.gathered[:], msg)
	n += copy(l.gathered[n:], data)
	return l.say(ctx, proc, hAsk, hAskMedium, l.gathered[:n])
}

// say sends a control message as a request, short if it fits.
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

// head returns the arguments of a control message that is the next to a rank: this rank, the
// message's number, and if it is short its length and itself.
func (l *Layer) head(p *talk, msg []byte) []uint32 {
	w := &l.words
	w[0], w[1] = uint32(l.cfg.Rank), p.sent
	if len(msg) > shortBytes {
		return w[:2]
	}
	w[2] = uint32(len(msg))
	return w[:3+l.pack(w[3:], msg)]
}

// control is the handler of short control messages that go one way.
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

// controlMedium is as control.
func (l *Layer) controlMedium(way controlWay) handler {
	return func(t endpoint.Token, a []uint32, data []byte) bool {
		return len(a) == 2 && len(data) <= layer.MaxControl && l.deliver(t, way, a[0], a[1], data)
	}
}

// deliver takes in a control message, and answers it if nobody else does.
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
		_ = p.asked.Reply(hControlDone) // it was deferred, and not answered
	}
}

// inTurn hands on a control message of a rank, and those that have waited for it, or keeps it
// until its turn. It reports false if the number cannot be.
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

// keep keeps a message that has come early, unless there is one of its number.
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
