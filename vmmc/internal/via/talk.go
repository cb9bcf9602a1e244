package via

import (
	"encoding/binary"

	"github.com/bobnet-go/bobnet/vipl"
	"github.com/bobnet-go/bobnet/vmmc/internal/provider"
)

// maxQueue bounds the messages that wait for credit, which a peer that gives none makes
// many: an honest one has at most maxAsks questions open.
const (
	maxAsks  = 1 << 14
	maxQueue = 2 * maxAsks
)

// say sends a message, when there is credit for it.
func (k *conn) say(b []byte) {
	if k.state == dead {
		return
	}
	if k.mayTalk == 0 || len(k.talk) > 0 {
		if k.talk = append(k.talk, b); len(k.talk) > maxQueue {
			k.violated()
		}
		return
	}
	k.mayTalk--
	k.put(b)
}

// put posts a message, with the credits that are owed.
func (k *conn) put(b []byte) {
	b[1], b[2] = byte(k.oweNote), byte(k.oweTalk)
	k.oweNote, k.oweTalk = 0, 0
	s, err := k.record()
	if err != nil {
		k.fail(err)
		return
	}
	s.copied(b)
	s.desc.Op = vipl.OpSend
	k.post(s)
}

// settle sends what credits allow, and returns those that are owed if they are many.
func (k *conn) settle() {
	for k.state != dead && k.mayTalk > 0 && len(k.talk) > 0 {
		b := k.talk[0]
		k.talk = k.talk[1:]
		k.mayTalk--
		k.put(b)
	}
	for k.state != dead && k.mayNote > 0 && k.notes.Len() > 0 {
		k.note(k.notes.Pop())
	}
	if k.state != dead && (k.oweTalk >= maxTalk/2 || k.oweNote >= maxNotes/2) {
		k.put(message(sayCredit))
	}
}

// arrived takes in a message or a notification. Its receive is posted again at once: what
// bounds notifications is that their credit is returned when they have been handled.
func (k *conn) arrived(x *receive) {
	d := &x.desc
	if d.Status&vipl.StatusOpMask == vipl.StatusOpRemoteRDMAWrite {
		slot := d.Immediate
		k.again(x)
		k.notified(slot)
		return
	}
	var room [messageSize]byte
	b := room[:copy(room[:], x.mem[:d.Length])]
	k.again(x)
	k.receive(b)
}

// receive takes in a message.
func (k *conn) receive(b []byte) {
	if len(b) < headSize || k.state == dialing && b[0] != sayHello {
		k.violated()
		return
	}
	if k.state == accepting {
		k.state = live
	}
	k.mayNote = min(k.mayNote+int(b[1]), maxNotes)
	k.mayTalk = min(k.mayTalk+int(b[2]), maxTalk)
	if b[0] != sayCredit {
		k.oweTalk++
	}
	r := reader{b: b[headSize:]}
	k.hear(b[0], &r)
	k.settle()
}

func (k *conn) again(x *receive) {
	if err := k.vi.PostRecv(&x.desc); err != nil {
		k.fail(err)
	}
}

// hear acts upon a message.
func (k *conn) hear(kind byte, r *reader) {
	switch kind {
	case sayHello:
		k.greeted(r)
	case sayAsk:
		k.asked(r)
	case sayForget:
		if q := k.requests[r.u32()]; q != nil {
			delete(k.requests, q.Seq)
			q.Gone = true
			k.p.up.Withdrawn(q)
		}
	case sayGrant:
		k.granted(r)
	case sayDeny:
		k.denied(r)
	case sayRevoke:
		if region := k.regions[r.u32()]; region != nil {
			k.revoked(region)
		}
	case sayReleased:
		k.released(r.u32())
	case sayRedirect:
		k.redirect(r)
	case sayRedirected:
		k.redirected(r)
	case sayCredit:
	default:
		r.bad = true
	}
	if r.bad {
		k.violated()
	}
}

func (k *conn) greeted(r *reader) {
	id, dials, ok := parseHello(r.take(helloSize), k.at.MAC)
	if !ok || k.state != dialing {
		r.bad = true
		return
	}
	k.state, k.peer, k.known, k.dials = live, id, true, dials
	if k.held != nil { // it has accepted ours
		k.held.Reject("the connection is made already")
		k.held = nil
	}
}

// Ask implements provider.Provider.
func (p *Provider) Ask(to addr, a *provider.Ask) {
	k, err := p.dial(to)
	if err != nil {
		a.Err = err
		p.up.Answered(a)
		return
	}
	if len(k.asks) >= maxAsks {
		a.Err = provider.ErrFull
		p.up.Answered(a)
		return
	}
	k.lastAsk++
	a.Link, a.Seq = k, k.lastAsk
	k.asks[a.Seq] = a
	k.sayAsk(a)
}

func (k *conn) sayAsk(a *provider.Ask) {
	b := append(message(sayAsk, a.Seq, a.ID), a.Ticket[:]...)
	k.say(append(b, a.Word...))
}

// Forget implements provider.Provider.
func (p *Provider) Forget(a *provider.Ask) {
	k, _ := a.Link.(*conn)
	if k == nil || k.asks[a.Seq] != a {
		return
	}
	delete(k.asks, a.Seq)
	k.say(message(sayForget, a.Seq))
}

func (k *conn) asked(r *reader) {
	q := &provider.Request{From: k.peer, Seq: r.u32(), ID: r.u32(), Link: k}
	copy(q.Ticket[:], r.take(len(q.Ticket)))
	q.Word = string(r.b)
	if r.bad || k.requests[q.Seq] != nil || len(q.Word) > provider.MaxWord {
		r.bad = true
		return
	}
	if k.requests[q.Seq] = q; len(k.requests) > maxAsks {
		k.p.Deny(q, provider.ReasonResource)
		return
	}
	k.p.up.Asked(q)
}

// Deny implements provider.Provider.
func (p *Provider) Deny(q *provider.Request, why provider.Reason) {
	k := q.Link.(*conn)
	if q.Gone {
		return
	}
	q.Gone = true
	delete(k.requests, q.Seq)
	k.say(append(message(sayDeny, q.Seq), byte(why)))
}

func (k *conn) denied(r *reader) {
	seq, why := r.u32(), provider.Reason(r.take(1)[0])
	if a := k.asks[seq]; a != nil {
		delete(k.asks, seq)
		a.Why = why
		k.p.up.Answered(a)
	}
}

func put64(b []byte, n uint64) []byte { return binary.BigEndian.AppendUint64(b, n) }
