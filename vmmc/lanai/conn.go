package lanai

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/vmmc/internal/asking"
	"github.com/bobnet-go/bobnet/vmmc/internal/provider"
)

// conn is a connection between two processes. It begins with a request of either, and ends when one
// of them ends it or their nodes' line ends.
type conn struct {
	p      *process
	at     ethertype.Addr // the peer
	node   int
	peer   provider.Identity
	known  bool // the peer has identified itself
	ended  bool
	silent bool   // the peer has announced that it sends nothing more
	line   uint64 // number of the node's line when the connection began
	busy   int    // writes in progress

	notes notes

	asking.Imports
	regions map[uint32]*region
}

// bye is the reason for the end of a connection that the other side receives.
type bye uint8

const (
	byeNone    bye = iota // the other side is not notified, or has ended the connection itself
	byeClosed             // the process has ended
	byeNobody             // no such process
	byeBroken             // the other side violates the protocol
	byeRefused            // a write of the other side was refused
	byeAnswer             // confirms the bye of the other side
)

var errNode = errors.New("lanai: no route to the node")

// parting is an ended connection whose end the peer has not yet confirmed. Until then, messages of
// the peer belong to that connection, and no new one can begin.
type parting struct {
	incarnation uint64 // of the peer
	node        int
	line        uint64
}

// part starts the parting of a connection.
func (p *process) part(k *conn) {
	p.parted[k.at] = parting{k.peer.Incarnation, k.node, k.line}
	p.h.host.Engine.Lock()
	p.knows(k.at, 1)
	p.h.hang(k.node, 1, 0)
	p.h.host.Engine.Unlock()
}

// parts ends the partings whose peer has confirmed the end of the connection. heard reports whether a peer has.
func (p *process) parts(heard func(at ethertype.Addr, x parting) bool) {
	for _, at := range slices.SortedFunc(maps.Keys(p.parted), ethertype.Addr.Compare) {
		if x := p.parted[at]; heard(at, x) {
			delete(p.parted, at)
			p.h.host.Engine.Lock()
			p.knows(at, -1)
			p.h.hang(x.node, -1, 0)
			p.h.host.Engine.Unlock()
		}
	}
}

var errParted = errors.New("lanai: the peer has not yet acknowledged the end of the previous connection")

// conn returns the connection with a process, and creates it if necessary. asked means that the other
// process has requested the connection.
func (p *process) conn(at ethertype.Addr, asked bool) (*conn, error) {
	if p.closed {
		return nil, provider.ErrClosed
	}
	if k := p.conns[at]; k != nil {
		return k, nil
	}
	if _, is := p.parted[at]; is {
		return nil, fmt.Errorf("%w: %w", provider.ErrPeer, errParted)
	}
	own := 0
	for x := range p.conns {
		if x.MAC == at.MAC {
			own++
		}
	}
	for x := range p.parted {
		if x.MAC == at.MAC {
			own++
		}
	}
	if err := provider.Full(at, p.cfg.Connections, len(p.conns)+len(p.parted), own, len(p.parted), asked); err != nil {
		return nil, err
	}
	h := p.h
	h.host.Engine.Lock()
	node, line, ok := h.line(at.MAC)
	if ok {
		p.knows(at, 1)
		h.hang(node, 1, int64(p.cfg.PeerTimeout))
	}
	h.host.Engine.Unlock()
	if !ok {
		return nil, fmt.Errorf("%w: %w: %v", provider.ErrPeer, errNode, at.MAC)
	}
	if p.guest != nil { // the restart of the line may not have been handled yet
		p.lineBegan(at.MAC, node, line)
	}
	k := &conn{p: p, at: at, node: node, line: line, peer: provider.Identity{Addr: at}, notes: notes{room: maxNotes}, regions: map[uint32]*region{}}
	k.Imports.Init(k, p.up)
	p.conns[at] = k
	return k, nil
}

// line returns the card's number of a node, and the number of the line to it. It reports false if
// the card does not know the node. The caller must hold the lock.
func (h *Card) line(mac ethertype.MAC) (node int, line uint64, ok bool) {
	if h.far != nil {
		return h.far.to(mac)
	}
	if node, ok = h.prog.nodes.Find(mac); !ok || !h.prog.ready {
		return 0, 0, false
	}
	return node, h.prog.lines[node].number, true
}

// say sends a message to the peer process.
func (k *conn) say(body []byte) {
	p := k.p
	e := envelope{port: k.at.Port, from: p.self}
	if k.known {
		e.incarnation = k.peer.Incarnation
	}
	b := append(make([]byte, 0, 1+envelopeSize+len(body)), ctlProcess)
	p.h.host.Engine.Lock()
	defer p.h.host.Engine.Unlock()
	if p.guest != nil {
		p.guest.say(&e, k.at.MAC, k.line, body)
	} else if k.holds() {
		p.h.send(k.node, append(e.append(b), body...))
		p.h.drive()
	}
}

// holds reports whether the line is still the one from the connection's beginning. If not, the
// connection has ended and will be notified. The caller must hold the host's lock.
func (k *conn) holds() bool {
	_, line, _ := k.p.h.line(k.at.MAC)
	return line == k.line
}

// body encodes the beginning of a message.
func body(kind byte, numbers ...uint32) []byte {
	b := []byte{kind}
	for _, n := range numbers {
		b = be32(b, n)
	}
	return b
}

// receive handles a message from another process.
func (p *process) receive(e *event) {
	r := asking.Reader{B: e.body}
	kind := r.U8()
	if x, is := p.parted[e.from]; is {
		if kind == sayBye || e.id.Incarnation != x.incarnation {
			p.parts(func(at ethertype.Addr, _ parting) bool { return at == e.from })
		}
		if kind == sayBye || e.id.Incarnation == x.incarnation {
			return
		}
	}
	k := p.conns[e.from]
	if k != nil && k.known && k.peer.Incarnation != e.id.Incarnation {
		if kind == sayBye {
			return
		}
		k.fail(provider.ErrPeer, byeNone) // the peer was restarted
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
		if k, err = p.conn(e.from, true); err != nil {
			p.count.Strangers++
			p.stray(e)
			return
		}
	}
	if kind != sayBye {
		k.peer, k.known = e.id, true
	}
	k.hear(kind, &r)
	if r.Bad && !k.ended {
		p.count.Violations++
		k.fail(fmt.Errorf("%w: %w: it violates the protocol", provider.ErrPeer, provider.ErrRefused), byeBroken)
	}
}

// stray handles a message of a connection that no longer exists: it notifies the sender with a bye.
func (p *process) stray(e *event) {
	h := p.h
	to := envelope{port: e.from.Port, incarnation: e.id.Incarnation, from: p.self}
	bye := []byte{sayBye, byte(byeNobody)}
	h.host.Engine.Lock()
	defer h.host.Engine.Unlock()
	switch node, line, ok := h.line(e.from.MAC); {
	case !ok:
	case p.guest != nil:
		p.guest.say(&to, e.from.MAC, line, bye)
	default:
		h.send(node, append(to.append([]byte{ctlProcess}), bye...))
		h.drive()
	}
}

// hear handles a message that the peer sent on the connection.
func (k *conn) hear(kind byte, r *asking.Reader) {
	switch kind {
	case sayAsk:
		k.Asks.Asked(k.peer, r)
	case sayForget:
		k.Asks.Withdrawn(r)
	case sayGrant:
		k.granted(r)
	case sayDeny:
		k.Asks.Denied(r)
	case sayRevoke:
		if x := k.regions[r.U32()]; x != nil {
			x.lose(provider.ErrRevoked)
			x.leave()
		}
	case sayReleased:
		k.Grants.Released(r.U32())
	case sayRedirect:
		k.redirect(r)
	case sayRedirected:
		k.Grants.Redirected(r)
	case sayMoved:
		k.moved(r.U32())
	case sayCredit:
		k.given(int(r.U8()))
	case sayNotified:
		k.toldSent(r.U32())
	case sayBye:
		k.disconnected(bye(r.U8()))
	default:
		r.Bad = true
	}
}

// disconnected handles the peer's bye.
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

// fail ends the connection with everything that depends on it.
func (k *conn) fail(why error, say bye) {
	if k.ended {
		return
	}
	p := k.p
	k.ended = true
	delete(p.conns, k.at)
	p.count.Broken++
	untold := k.Grants.End()
	k.drop()
	if say != byeNone {
		k.say([]byte{sayBye, byte(say)})
	}
	if say == byeBroken || say == byeRefused {
		p.part(k)
	}
	k.Asks.End(why)
	for _, x := range k.inOrder() {
		x.lose(why)
	}
	for _, g := range untold {
		p.up.Released(g)
	}
}

// refused handles a write that the peer has refused because it has revoked the memory.
func (k *conn) refused() {
	k.fail(fmt.Errorf("%w: it has refused a write", provider.ErrPeer), byeRefused)
}

// inOrder returns the regions in the order of their numbers.
func (k *conn) inOrder() []*region {
	var all []*region
	for _, n := range slices.Sorted(maps.Keys(k.regions)) {
		all = append(all, k.regions[n])
	}
	return all
}

// drop frees the connection's resources on the card.
func (k *conn) drop() {
	h := k.p.h
	h.host.Engine.Lock()
	defer h.host.Engine.Unlock()
	k.p.knows(k.at, -1)
	h.hang(k.node, -1, 0)
	for _, x := range k.inOrder() {
		x.close()
	}
}

// Ask implements provider.Provider.
func (p *process) Ask(to ethertype.Addr, a *provider.Ask) {
	k, err := p.conn(to, false)
	if err != nil {
		a.Err = err
		p.up.Answered(a)
		return
	}
	k.Asks.Ask(a)
}

// SayAsk implements asking.Conn.
func (k *conn) SayAsk(seq, export uint32, rest []byte) {
	k.say(append(body(sayAsk, seq, export), rest...))
}

// SayForget implements asking.Conn.
func (k *conn) SayForget(seq uint32) { k.say(body(sayForget, seq)) }

// SayDeny implements asking.Conn.
func (k *conn) SayDeny(seq uint32, why provider.Reason) {
	k.say(append(body(sayDeny, seq), byte(why)))
}

// SayGrant implements asking.Conn.
func (k *conn) SayGrant(seq, slot uint32, at asking.Place, size uint64) {
	k.say(be64(body(sayGrant, seq, slot, at.Key, uint32(at.Addr)), size))
}

// SayRevoke implements asking.Conn.
func (k *conn) SayRevoke(slot uint32) { k.say(body(sayRevoke, slot)) }

// SayRedirect implements asking.Conn.
func (k *conn) SayRedirect(slot uint32, at asking.Place) {
	k.say(body(sayRedirect, slot, at.Key, uint32(at.Addr)))
}

// SayMoved implements asking.Conn.
func (k *conn) SayMoved(slot uint32) { k.say(body(sayMoved, slot)) }
