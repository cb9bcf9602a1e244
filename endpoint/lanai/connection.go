package lanai

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/bobnet-go/bobnet/endpoint/internal/gate"
	"github.com/bobnet-go/bobnet/endpoint/internal/provider"
	"github.com/bobnet-go/bobnet/endpoint/internal/wire"
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/errclass"
	"github.com/bobnet-go/bobnet/transport"
)

// connection handles a control message that another driver sent about a connection.
func (p *way) connection(x *item) {
	if x.what == itemOpen {
		p.accept(x)
		return
	}
	p.card.lock()
	defer p.card.unlock()
	switch x.what {
	case itemLost:
		p.lost(x)
		return
	case itemAlive:
		if none := p.lacks(x.from, x.data); len(none) > 0 {
			p.card.driver.say(sayNone, x.from, p.seat, 0, none...)
		}
		return
	}
	ch := p.conns[x.conn]
	if ch == nil && x.what == itemGone {
		ch = p.ofPeer(x.from, x.peerConn)
	}
	if ch == nil || ch.peer.mac != x.from.mac || ch.peer.port != x.from.port {
		if x.what == itemAccepted {
			p.card.driver.say(sayGone, x.from, p.seat, x.conn, pair(x.peerConn, 0)...)
		}
		return
	}
	switch x.what {
	case itemAccepted:
		if !ch.known && !ch.over {
			ch.known, ch.peerConn, ch.peer.end = true, x.peerConn, x.from.end
			p.peers[ch.key()].life, ch.peerLife = x.life, x.life
			ch.connected()
		}
	case itemRefused:
		ch.ended = true
		if x.reason == 0 || x.reason >= wire.ReasonEnd {
			x.reason = wire.ReasonUnreachable
		}
		ch.breaks(x.reason)
	default:
		ch.ended = true
		p.end(ch, wire.ReasonBadEndpoint)
	}
}

// lost ends all connections with a remote program. It marks all of them before it reads the first
// endpoint, because breaking the connections of an endpoint scans all connections.
func (p *way) lost(x *item) {
	var ended []*channel
	for _, ch := range p.inOrder() {
		if ch.peer.mac == x.from.mac && ch.peer.port == x.from.port && (x.life == 0 || ch.peerLife == x.life) && ch.toEnd(x.reason) {
			ended = append(ended, ch)
		}
	}
	for _, ch := range ended {
		if ch.e.ending > 0 {
			p.look(ch.e)
		}
	}
}

// end breaks a connection that the other end has ended, after the messages sent before have been
// read: messages arrive at another endpoint than the notification of the end. While the endpoint
// moves to or from a frame, this is deferred.
func (p *way) end(ch *channel, reason wire.Reason) {
	if ch.toEnd(reason) {
		p.look(ch.e)
	}
}

// toEnd records that a connection must break once its endpoint has been read. It returns false if
// this was already recorded.
func (ch *channel) toEnd(reason wire.Reason) bool {
	if ch.over || ch.ending != 0 {
		return false
	}
	ch.ending = reason
	ch.e.ending++
	return true
}

// endAll breaks the connections of an endpoint that must end, once the endpoint has been read.
func (p *way) endAll(x *end) {
	x.ending = 0
	for _, ch := range p.inOrder() {
		if ch.e == x && ch.ending != 0 {
			ch.breaks(ch.ending)
		}
	}
}

// inOrder returns the connections ordered by number, so that a simulation sends messages for
// several connections in the same order in each run.
func (p *way) inOrder() []*channel {
	return slices.SortedFunc(maps.Values(p.conns), func(a, b *channel) int { return cmp.Compare(a.conn, b.conn) })
}

// ofPeer returns the connection that has the given number at a remote program.
func (p *way) ofPeer(from peerName, conn uint32) *channel {
	for _, ch := range p.conns {
		if ch.known && ch.peerConn == conn && ch.peer.mac == from.mac && ch.peer.port == from.port {
			return ch
		}
	}
	return nil
}

// accept accepts or refuses a connection.
func (p *way) accept(x *item) {
	var h wire.Hello
	reason := wire.ReasonUnreachable
	var up provider.Half
	if h.Parse(x.data) && h.Shape.Medium <= provider.MaxCardMedium && h.From.Addr == (ethertype.Addr{MAC: x.from.mac, Port: x.from.port}) {
		up, reason = p.up.Admit(&h)
	} else {
		p.up.Stray()
	}
	size := h.Shape.Memory(wire.Serving)
	at := p.ends[h.ID]
	if reason == 0 && (at == nil || !p.memory.Take(x.from.mac, size)) {
		reason = wire.ReasonCongestion
	}
	if reason != 0 {
		p.up.Refused(reason)
		p.card.lock()
		defer p.card.unlock()
		p.card.driver.say(sayRefuse, x.from, p.seat, 0, pair(x.conn, uint32(reason))...)
		return
	}
	p.card.lock()
	ch := p.channel(h.Shape, wire.Serving, up, at)
	ch.taken, ch.known, ch.peerConn = size, true, x.conn
	ch.peer = peerName{x.from.mac, x.from.port, h.From.ID}
	p.meets(ch, x.life)
	p.card.unlock()
	p.up.Attach(up, ch)
	p.card.lock()
	defer p.card.unlock()
	if !ch.over {
		p.card.driver.say(sayAccept, ch.peer, p.seat, ch.conn, pair(x.conn, at.id)...)
	}
}

// key returns the program at the other end.
func (ch *channel) key() peerKey { return peerKey{ch.peer.mac, ch.peer.port} }

// meets counts a connection with a remote program. life is 0 if it is not yet known. The caller
// must hold the engine's lock.
func (p *way) meets(ch *channel, life uint32) {
	key := ch.key()
	x := p.peers[key]
	if x == nil {
		x = &peerState{next: p.card.Now() + p.patience()}
		p.peers[key] = x
	}
	x.conns++
	if ch.peerLife = life; life != 0 {
		x.life = life
	}
	p.card.driver.askAt = 0
}

// drop removes a closed connection, and the messages that its half has kept. The caller must hold
// the engine's lock.
func (p *way) drop(ch *channel) {
	delete(p.conns, ch.conn)
	for i, r := range ch.e.post.kept {
		if r != nil && r.ch == ch {
			p.card.driver.release(ch.e, i)
			r.at = -1
		}
	}
	key := ch.key()
	if x := p.peers[key]; x != nil {
		if x.conns--; x.conns <= 0 {
			delete(p.peers, key)
		}
	}
}

// patience is how long, in nanoseconds, a remote program is assumed to be alive and to have its
// connections with this one.
func (p *way) patience() int64 { return int64(p.silent / 2) }

// lives records that the card of a remote program has accepted an inquiry.
func (p *way) lives(key peerKey) {
	if x := p.peers[key]; x != nil && x.asked {
		x.asked, x.next = false, p.card.Now()+p.patience()
		p.card.driver.askAt = 0
	}
}

// mostPairs is the maximum number of connections in an inquiry. An inquiry of this size fits in its
// entry, so it need not wait for the DMA engine.
const mostPairs = (inlineSize - connSize - sayHead - pairSize) / pairSize

// inquire sends inquiries to a remote program: whether it is alive, and whether it has the connections that
// this program has with it. While there was no route, its notification of a connection's end, or its response
// to a connection request, may have been lost.
func (p *way) inquire(key peerKey, life uint32) {
	ask := func(pairs []byte) {
		p.card.driver.say(sayAlive, peerName{mac: key.mac, port: key.port}, p.seat, 0, append(pair(life, 0), pairs...)...)
	}
	var pairs []byte
	for _, ch := range p.inOrder() {
		if ch.key() != key || ch.over {
			continue
		}
		if pairs = append(pairs, pair(ch.conn, ch.peerConn)...); len(pairs) == mostPairs*pairSize {
			ask(pairs)
			pairs = pairs[:0]
		}
	}
	ask(pairs)
}

// lacks returns those of the connections listed by a remote program that this one does not have.
func (p *way) lacks(from peerName, pairs []byte) (none []byte) {
	for ; len(pairs) >= pairSize; pairs = pairs[pairSize:] {
		theirs, ours := word(pairs, 0), word(pairs, 4)
		ch := p.conns[ours]
		if ours == 0 { // the remote program waits for the response to its connection request
			ch = p.ofPeer(from, theirs)
		}
		if ch == nil || ch.key() != (peerKey{from.mac, from.port}) {
			none = append(none, pairs[:pairSize]...)
		}
	}
	return none
}

// lose ends all connections with a remote program.
func (p *way) lose(key peerKey, reason wire.Reason) {
	p.push(item{what: itemLost, from: peerName{mac: key.mac, port: key.port}, reason: reason})
}

// dead handles the report that the program with a given life has ended.
func (p *way) dead(key peerKey, life uint32) {
	p.push(item{what: itemLost, from: peerName{mac: key.mac, port: key.port}, life: life, reason: wire.ReasonBadEndpoint})
}

// attend implements listener: it repeats look-ups of names, asks remote programs about connections,
// and returns when it must run again.
func (p *way) attend(now int64) (next int64) {
	next = transport.Forever
	for _, name := range slices.Sorted(maps.Keys(p.looked)) {
		if p.looked[name].Port == 0 {
			p.card.driver.ask(name)
			next = now + askAgain
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(p.peers), peerKey.compare) {
		switch x := p.peers[key]; {
		case x.asked:
		case now >= x.next:
			x.asked = true
			p.inquire(key, x.life)
		default:
			next = min(next, x.next)
		}
	}
	return next
}

// Advertise implements provider.Provider.
func (p *way) Advertise(name string) error {
	if name == "" || len(name) > maxName {
		return provider.OpError("advertise", provider.ErrArgument, "a name of %d bytes: want 1 to %d", len(name), maxName)
	}
	if far := p.card.driver.far; far != nil {
		if _, err := far.request(note{Do: doName, Port: p.seat.port, Name: name}); err != nil {
			return fmt.Errorf("%w: advertise: %w", refusal(err), err)
		}
	}
	p.card.lock()
	defer p.card.unlock()
	p.seat.names[name] = struct{}{}
	return nil
}

// Withdraw implements provider.Provider.
func (p *way) Withdraw(name string) {
	p.card.lock()
	defer p.card.unlock()
	delete(p.seat.names, name)
	if far := p.card.driver.far; far != nil {
		far.line.Send(note{Do: doUnname, Port: p.seat.port, Name: name})
	}
}

const (
	askAgain    = 20_000_000    // between queries, ns
	lookupLimit = 5_000_000_000 // limit of a Lookup whose context has no deadline, ns
)

// Lookup implements provider.Provider. It asks all cards, and also finds programs on the same card.
func (p *way) Lookup(ctx context.Context, _ ethertype.Addr, name string) (ethertype.Addr, error) {
	if name == "" || len(name) > maxName {
		return ethertype.Addr{}, provider.OpError("lookup", provider.ErrArgument, "a name of %d bytes: want 1 to %d", len(name), maxName)
	}
	p.card.lock()
	defer p.card.unlock()
	d := &p.card.driver
	for _, x := range d.programs {
		if _, has := x.names[name]; has {
			return ethertype.Addr{MAC: p.card.cfg.MAC, Port: x.port}, nil
		}
	}
	e := &p.card.host.Engine
	w := e.BeginFor(ctx, lookupLimit)
	defer e.End(&w)
	p.looked[name] = ethertype.Addr{}
	defer delete(p.looked, name)
	d.askAt = 0
	d.kick()
	for p.looked[name].Port == 0 {
		if err := e.Wait(&w, &p.asking); err != nil {
			err = gate.EndOf(err)
			if err == nil || errors.Is(err, context.DeadlineExceeded) {
				err = p.silence(name)
			}
			return ethertype.Addr{}, err
		}
	}
	return p.looked[name], nil
}

// silence returns the error of an unanswered look-up. If the card's own cable has a problem, it
// reports that. The caller must hold the engine's lock.
func (p *way) silence(name string) error {
	err := fmt.Errorf("endpoint: lookup %q: no reply on the fabric (is the program that publishes it running?)", name)
	if trouble := p.card.host.Trouble(); trouble != nil {
		err = fmt.Errorf("endpoint: lookup %q: cannot receive a reply: %w", name, trouble)
	}
	return errclass.With(provider.ErrResource, err)
}

// found implements listener.
func (p *way) found(name string, at ethertype.Addr) {
	if _, asked := p.looked[name]; asked {
		p.looked[name] = at
		p.asking.Open(&p.card.host.Engine)
	}
}
