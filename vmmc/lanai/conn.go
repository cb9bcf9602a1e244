package lanai

import (
	"errors"
	"fmt"
	"slices"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/transport/fifo"
	"github.com/bobnet-go/bobnet/vmmc/internal/provider"
)

// conn is what a process has to do with another one: it begins with a question of either,
// and ends when one of them says so, or their nodes' line ends.
type conn struct {
	p      *Process
	at     ethertype.Addr // the peer
	node   int
	peer   provider.Identity
	known  bool // peer is what it says of itself
	ended  bool
	silent bool   // the peer has said that nothing more comes
	line   uint64 // of the node, when the connection began
	busy   int    // writes under way

	mayNote int                // notifications that may be sent
	oweNote int                // of the peer's, those whose room is not given back yet
	notes   fifo.Queue[uint32] // slots of regions whose notifications wait for room

	asks     map[uint32]*provider.Ask
	lastAsk  uint32
	requests map[uint32]*provider.Request
	regions  map[uint32]*region
	grants   []*grant
}

const (
	maxNotes = 32      // notifications that a process has room for, from each other one
	maxAsks  = 1 << 14 // questions that it has
)

// bye is why a connection ends, as the other side is told.
type bye uint8

const (
	byeNone    bye = iota // it is not told, or has said it itself
	byeClosed             // the process has ended
	byeNobody             // there is no such process
	byeBroken             // the other side breaks the protocol
	byeRefused            // a write of it was refused
	byeAnswer             // it has said so first
)

var errNode = errors.New("lanai: no way to the node is known")

// conn returns the connection with a process, a new one if there is none.
func (p *Process) conn(at ethertype.Addr) (*conn, error) {
	if p.closed {
		return nil, provider.ErrClosed
	}
	if k := p.conns[at]; k != nil {
		return k, nil
	}
	if len(p.conns) >= p.cfg.Connections {
		return nil, fmt.Errorf("vmmc: connect to %v: %d connections are as many as Config.MaxConnections allows", at, len(p.conns))
	}
	h := p.h
	h.eng.Lock()
	defer h.eng.Unlock()
	node := -1
	if h.prog.ready {
		node = h.prog.nodes.find(at.MAC)
	}
	if node < 0 {
		return nil, fmt.Errorf("%w: %w: %v", provider.ErrPeer, errNode, at.MAC)
	}
	k := &conn{p: p, at: at, node: node, peer: provider.Identity{Addr: at}, mayNote: maxNotes, asks: map[uint32]*provider.Ask{},
		requests: map[uint32]*provider.Request{}, regions: map[uint32]*region{}}
	k.line = h.prog.lines[node].number
	p.conns[at] = k
	h.hang(node, 1, int64(p.cfg.PeerTimeout))
	return k, nil
}

// say sends the peer a message.
func (k *conn) say(body []byte) {
	p := k.p
	e := envelope{port: k.at.Port, from: p.self}
	if k.known {
		e.incarnation = k.peer.Incarnation
	}
	b := append(make([]byte, 0, 1+envelopeSize+len(body)), ctlProcess)
	p.h.eng.Lock()
	defer p.h.eng.Unlock()
	if k.holds() {
		p.h.send(k.node, false, append(e.append(b), body...))
		p.h.carrier.drive()
	}
}

// holds reports whether the line is that of the connection's beginning: else the
// connection has ended, and is about to be told. The host's lock is held.
func (k *conn) holds() bool { return k.p.h.prog.lines[k.node].number == k.line }

// body begins a message.
func body(kind byte, numbers ...uint32) []byte {
	b := []byte{kind}
	for _, n := range numbers {
		b = be32(b, n)
	}
	return b
}

// receive takes in a message of another process.
func (p *Process) receive(e *event) {
	r := reader{b: e.body}
	kind := r.u8()
	k := p.conns[e.from]
	if k != nil && k.known && k.peer.Incarnation != e.id.Incarnation {
		if kind == sayBye {
			return
		}
		k.fail(provider.ErrPeer, byeNone) // it was started again
		k = nil
	}
	if k == nil {
		if kind != sayAsk {
			if kind != sayBye {
				p.stray(e)
			}
			return
		}
		var err error
		if k, err = p.conn(e.from); err != nil {
			p.count.Strangers++
			p.stray(e)
			return
		}
	}
	if kind != sayBye {
		k.peer, k.known = e.id, true
	}
	k.hear(kind, &r)
	if r.bad && !k.ended {
		p.count.Violations++
		k.fail(fmt.Errorf("%w: %w: it breaks the protocol", provider.ErrPeer, provider.ErrRefused), byeBroken)
	}
}

// stray answers a message of a connection that is none any more: nothing more comes.
func (p *Process) stray(e *event) {
	h := p.h
	to := envelope{port: e.from.Port, incarnation: e.id.Incarnation, from: p.self}
	h.eng.Lock()
	defer h.eng.Unlock()
	if node := h.prog.nodes.find(e.from.MAC); node >= 0 {
		h.send(node, false, append(to.append([]byte{ctlProcess}), sayBye, byte(byeNobody)))
		h.carrier.drive()
	}
}

// hear acts upon a message.
func (k *conn) hear(kind byte, r *reader) {
	switch kind {
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
		seq, why := r.u32(), provider.Reason(r.u8())
		if a := k.asks[seq]; a != nil && !r.bad {
			delete(k.asks, seq)
			a.Why = why
			k.p.up.Answered(a)
		}
	case sayRevoke:
		if x := k.regions[r.u32()]; x != nil {
			x.lose(provider.ErrRevoked)
			x.leave()
		}
	case sayReleased:
		k.released(r.u32())
	case sayRedirect:
		k.redirect(r)
	case sayRedirected:
		k.redirected(r)
	case sayCredit:
		k.mayNote = min(k.mayNote+int(r.u8()), maxNotes)
		k.settle()
	case sayBye:
		k.disconnected(bye(r.u8()))
	default:
		r.bad = true
	}
}

// disconnected: the peer has said that nothing more comes.
func (k *conn) disconnected(why bye) {
	k.silent = true
	switch why {
	case byeBroken:
		k.fail(fmt.Errorf("%w: %w", provider.ErrPeer, provider.ErrRefused), byeAnswer)
	case byeAnswer, byeNobody:
		k.fail(provider.ErrPeer, byeNone)
	default:
		k.fail(provider.ErrPeer, byeAnswer)
	}
}

// fail ends the connection, and all that hangs on it. The frames of its grants keep their
// numbers until the peer has said that nothing more comes.
func (k *conn) fail(why error, say bye) {
	if k.ended {
		return
	}
	p := k.p
	k.ended = true
	delete(p.conns, k.at)
	p.count.Broken++
	gone := k.drop()
	if say != byeNone {
		k.say([]byte{sayBye, byte(say)})
	}
	for _, a := range k.sortedAsks() {
		a.Err = why
		p.up.Answered(a)
	}
	for _, r := range k.requests {
		r.Gone = true
		p.up.Withdrawn(r)
	}
	for _, x := range k.regions {
		x.lose(why)
	}
	for _, g := range gone {
		p.up.Released(&g.Grant)
	}
}

// drop takes what the connection has on the card, and returns the grants that end by it.
func (k *conn) drop() (gone []*grant) {
	h := k.p.h
	h.eng.Lock()
	defer h.eng.Unlock()
	h.hang(k.node, -1, 0)
	for _, x := range k.regions {
		x.close()
	}
	silent := k.silent || !k.holds()
	for _, g := range k.grants {
		if g == nil {
			continue
		}
		if g.State != taken {
			gone = append(gone, g)
		}
		for _, r := range []*run{&g.frames, &g.before} {
			if r.n > 0 {
				h.ungrant(*r)
				if silent {
					h.frames.free(*r)
				} else {
					h.kept = append(h.kept, kept{*r, k.at, k.p.port})
				}
				*r = run{}
			}
		}
	}
	return gone
}

func (k *conn) sortedAsks() (asks []*provider.Ask) {
	for _, a := range k.asks {
		asks = append(asks, a)
	}
	slices.SortFunc(asks, func(a, b *provider.Ask) int { return int(a.Seq) - int(b.Seq) })
	return asks
}

// Ask implements provider.Provider.
func (p *Process) Ask(to ethertype.Addr, a *provider.Ask) {
	k, err := p.conn(to)
	if err == nil && len(k.asks) >= maxAsks {
		err = provider.ErrFull
	}
	if err != nil {
		a.Err = err
		p.up.Answered(a)
		return
	}
	k.lastAsk++
	a.Link, a.Seq = k, k.lastAsk
	k.asks[a.Seq] = a
	b := append(body(sayAsk, a.Seq, a.ID), a.Ticket[:]...)
	k.say(append(b, a.Word...))
}

// Forget implements provider.Provider.
func (p *Process) Forget(a *provider.Ask) {
	k, _ := a.Link.(*conn)
	if k == nil || k.asks[a.Seq] != a || k.ended {
		return
	}
	delete(k.asks, a.Seq)
	k.say(body(sayForget, a.Seq))
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
func (p *Process) Deny(q *provider.Request, why provider.Reason) {
	k := q.Link.(*conn)
	if q.Gone {
		return
	}
	q.Gone = true
	delete(k.requests, q.Seq)
	k.say(append(body(sayDeny, q.Seq), byte(why)))
}
