package via

import (
	"encoding/binary"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/bobnet-go/bobnet/vmmc/internal/asking"
	"github.com/bobnet-go/bobnet/vmmc/internal/provider"
)

// maxQueue limits the messages that wait for credit. A peer that returns no credit could otherwise
// make them many. A well-behaved peer has at most asking.Most questions open.
const maxQueue = 2 * asking.Most

// say queues a message, and sends it when there is credit.
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

// put posts a message, together with the owed credits.
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

// sendWaiting sends as many messages as credits allow. If many credits are owed, it returns them.
func (k *conn) sendWaiting() {
	for k.state != dead && k.mayTalk > 0 && len(k.talk) > 0 {
		b := k.talk[0]
		k.talk = k.talk[1:]
		k.mayTalk--
		k.put(b)
	}
	for k.state != dead && k.mayNote > 0 && k.notes.Len() > 0 && len(k.held) == 0 { // none comes before its write
		k.note(k.notes.Pop())
	}
	if k.state != dead && (k.oweTalk >= maxTalk/2 || k.oweNote >= maxNotes/2) {
		k.put(message(sayCredit))
	}
}

// arrived handles a message or a notification. It posts the receive again at once. The number of
// notifications stays limited because their credit returns only when they have been handled.
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

// receive parses a message.
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
	r := asking.Reader{B: b[headSize:]}
	k.hear(b[0], &r)
	k.sendWaiting()
}

func (k *conn) again(x *receive) {
	if err := k.vi.PostRecv(&x.desc); err != nil {
		k.fail(err)
	}
}

// hear handles a message.
func (k *conn) hear(kind byte, r *asking.Reader) {
	switch kind {
	case sayHello:
		k.greeted(r)
	case sayAsk:
		k.Asks.Asked(k.peer, r)
	case sayForget:
		k.Asks.Withdrawn(r)
	case sayGrant:
		k.granted(r)
	case sayDeny:
		k.Asks.Denied(r)
	case sayRevoke:
		if region := k.regions[r.U32()]; region != nil {
			k.revoked(region)
		}
	case sayReleased:
		k.Grants.Released(r.U32())
	case sayRedirect:
		k.redirect(r)
	case sayRedirected:
		k.Grants.Redirected(r)
	case sayMoved:
		k.moved(r)
	case sayCredit:
	default:
		r.Bad = true
	}
	if r.Bad {
		k.violated()
	}
}

func (k *conn) greeted(r *asking.Reader) {
	id, dials, ok := parseHello(r.Take(helloSize), k.at.MAC)
	if !ok || k.state != dialing {
		r.Bad = true
		return
	}
	k.state, k.peer, k.known, k.dials = live, id, true, dials
	if k.theirs != nil { // it has accepted ours
		k.theirs.Reject("the connection is made already")
		k.theirs = nil
	}
}

// Ask implements provider.Provider.
func (p *Provider) Ask(to ethertype.Addr, a *provider.Ask) {
	k, err := p.dial(to)
	if err != nil {
		a.Err = err
		p.up.Answered(a)
		return
	}
	k.Asks.Ask(a)
}

// SayAsk implements asking.Conn.
func (k *conn) SayAsk(seq, export uint32, rest []byte) {
	k.say(append(message(sayAsk, seq, export), rest...))
}

// SayForget implements asking.Conn.
func (k *conn) SayForget(seq uint32) { k.say(message(sayForget, seq)) }

// SayDeny implements asking.Conn.
func (k *conn) SayDeny(seq uint32, why provider.Reason) {
	k.say(append(message(sayDeny, seq), byte(why)))
}

// SayGrant implements asking.Conn.
func (k *conn) SayGrant(seq, slot uint32, at asking.Place, size uint64) {
	k.say(put64(put32(put64(message(sayGrant, seq, slot), at.Addr), at.Key), size))
}

// SayRevoke implements asking.Conn.
func (k *conn) SayRevoke(slot uint32) { k.say(message(sayRevoke, slot)) }

// SayRedirect implements asking.Conn.
func (k *conn) SayRedirect(slot uint32, at asking.Place) {
	k.say(put32(put64(message(sayRedirect, slot), at.Addr), at.Key))
}

// SayMoved implements asking.Conn.
func (k *conn) SayMoved(slot uint32) { k.say(message(sayMoved, slot)) }

func put32(b []byte, n uint32) []byte { return binary.BigEndian.AppendUint32(b, n) }
func put64(b []byte, n uint64) []byte { return binary.BigEndian.AppendUint64(b, n) }
