package lanai

import (
	"context"
	"errors"

	"github.com/bobnet-go/bobnet/endpoint/internal/gate"
	"github.com/bobnet-go/bobnet/endpoint/internal/provider"
	"github.com/bobnet-go/bobnet/endpoint/internal/wire"
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/transport"
)

// connection sees to what another driver has said about a connection.
func (p *Provider) connection(x *item) {
	if x.what == itemOpen {
		p.accept(x)
		return
	}
	p.card.lock()
	defer p.card.unlock()
	if x.what == itemLost {
		for _, ch := range p.conns {
			if ch.peer.mac == x.from.mac && ch.peer.port == x.from.port && (x.life == 0 || ch.peerLife == x.life) {
				p.end(ch, x.reason)
			}
		}
		return
	}
	ch := p.conns[x.conn]
	if ch == nil && x.what == itemGone {
		ch = p.ofPeer(x.from, x.peerConn)
	}
	if ch == nil || ch.peer.mac != x.from.mac || ch.peer.port != x.from.port {
		if x.what == itemAccepted {
			p.card.driver.say(sayGone, x.from, p, x.conn, nil, pair(x.peerConn, 0)...)
		}
		return
	}
	switch x.what {
	case itemAccepted:
		if !ch.known && !ch.over {
			ch.known, ch.peerConn, ch.peer.end = true, x.peerConn, x.from.end
			p.joins(ch, x.life)
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

// end breaks a connection that the other end has ended, as soon as what that one has said
// before has been read: messages come by another endpoint than the news of the end. While
// the endpoint is on its way to a frame or from it, that is later.
func (p *Provider) end(ch *channel, reason wire.Reason) {
	if ch.over || ch.ending != 0 {
		return
	}
	ch.ending = reason
	ch.e.ending++
	p.look(ch.e)
}

// endAll breaks the connections of an endpoint that are to end, when it has been read.
func (p *Provider) endAll(x *end) {
	x.ending = 0
	for _, ch := range p.conns {
		if ch.e == x && ch.ending != 0 {
			ch.breaks(ch.ending)
		}
	}
}

// ofPeer returns the connection that has a number at a program elsewhere.
func (p *Provider) ofPeer(from peerName, conn uint32) *channel {
	for _, ch := range p.conns {
		if ch.peerConn == conn && ch.peer.mac == from.mac && ch.peer.port == from.port {
			return ch
		}
	}
	return nil
}

// accept accepts or refuses a connection.
func (p *Provider) accept(x *item) {
	var h wire.Hello
	reason := wire.ReasonUnreachable
	var up provider.Half
	if h.Parse(x.data) && h.Shape.Medium <= MaxMedium {
		up, reason = p.up.Admit(&h)
	} else {
		p.up.Stray()
	}
	size := h.Shape.Memory(wire.Serving)
	at := p.ends[h.ID]
	if reason == 0 && (at == nil || !p.memory.Take(size)) {
		reason = wire.ReasonCongestion
	}
	if reason != 0 {
		p.up.Refused(reason)
		p.card.lock()
		defer p.card.unlock()
		p.card.driver.say(sayRefuse, x.from, p, 0, nil, pair(x.conn, uint32(reason))...)
		return
	}
	p.card.lock()
	ch := p.channel(h.Shape, wire.Serving, up, at)
	ch.taken, ch.known, ch.peerConn = size, true, x.conn
	ch.peer = peerName{x.from.mac, x.from.port, h.From.ID}
	p.joins(ch, x.life)
	p.card.unlock()
	p.up.Attach(up, ch)
	p.card.lock()
	defer p.card.unlock()
	if !ch.over {
		p.card.driver.say(sayAccept, ch.peer, p, ch.conn, ch, pair(x.conn, at.id)...)
	}
}

// joins counts a connection with a program elsewhere. The engine's lock is held.
func (p *Provider) joins(ch *channel, life uint32) {
	key := peerKey{ch.peer.mac, ch.peer.port}
	ch.peerLife = life
	x := p.peers[key]
	if x == nil || x.life != life {
		x = &peerState{life: life}
		p.peers[key] = x
	}
	x.conns++
	x.heard = p.card.Now()
	p.card.driver.askAt = 0
}

// drop forgets a connection that is closed, and what its half has kept. The engine's lock
// is held.
func (p *Provider) drop(ch *channel) {
	delete(p.conns, ch.conn)
	for i, r := range ch.e.post.kept {
		if r != nil && r.ch == ch {
			p.card.driver.release(ch.e, i)
			r.at = -1
		}
	}
	key := peerKey{ch.peer.mac, ch.peer.port}
	if x := p.peers[key]; x != nil && x.life == ch.peerLife {
		if x.conns--; x.conns <= 0 {
			delete(p.peers, key)
		}
	}
}

// hear notes that a program elsewhere lives.
func (p *Provider) hear(key peerKey) {
	if x := p.peers[key]; x != nil {
		x.heard = p.card.Now()
		if x.asked {
			x.asked, p.card.driver.askAt = false, 0
		}
	}
}

// lose ends all connections with a program elsewhere.
func (p *Provider) lose(key peerKey, reason wire.Reason) {
	p.push(item{what: itemLost, from: peerName{mac: key.mac, port: key.port}, reason: reason})
}

// dead hears that the program of one life is no more.
func (p *Provider) dead(key peerKey, life uint32) {
	p.push(item{what: itemLost, from: peerName{mac: key.mac, port: key.port}, life: life, reason: wire.ReasonBadEndpoint})
}

// attend asks for names, and for programs that have been silent for long, and returns when
// to look again.
func (p *Provider) attend(now int64) (next int64) {
	next = transport.Forever
	for name, at := range p.found {
		if at.Port == 0 {
			p.card.driver.ask(name)
			next = now + askAgain
		}
	}
	patience := int64(p.silent / 2)
	for key, x := range p.peers {
		at := x.heard + patience
		switch {
		case x.asked:
			continue
		case now >= at:
			x.asked = true
			p.card.driver.say(sayAlive, peerName{mac: key.mac, port: key.port}, p, 0, nil, pair(x.life, 0)...)
			continue
		}
		next = min(next, at)
	}
	return next
}

// Advertise implements provider.Provider.
func (p *Provider) Advertise(name string) error {
	if name == "" || len(name) > maxName {
		return provider.OpError("advertise", provider.ErrBadArg, "a name of %d octets: want 1 to %d", len(name), maxName)
	}
	p.card.lock()
	defer p.card.unlock()
	p.names[name] = struct{}{}
	return nil
}

// Withdraw implements provider.Provider.
func (p *Provider) Withdraw(name string) {
	p.card.lock()
	defer p.card.unlock()
	delete(p.names, name)
}

const (
	askAgain    = 20_000_000    // from one query to the next, ns
	lookupLimit = 5_000_000_000 // that a Lookup takes whose context has no deadline, ns
)

// Lookup implements provider.Provider. Programs on the same card are found, too.
func (p *Provider) Lookup(ctx context.Context, name string) (ethertype.Addr, error) {
	if name == "" || len(name) > maxName {
		return ethertype.Addr{}, provider.OpError("lookup", provider.ErrBadArg, "a name of %d octets: want 1 to %d", len(name), maxName)
	}
	p.card.lock()
	defer p.card.unlock()
	d := &p.card.driver
	for _, x := range d.programs {
		if _, has := x.names[name]; has {
			return x.Addr(), nil
		}
	}
	e := &p.card.engine
	w := e.BeginFor(ctx, lookupLimit)
	defer e.End(&w)
	p.found[name] = ethertype.Addr{}
	defer delete(p.found, name)
	d.askAt = 0
	d.kick()
	for p.found[name].Port == 0 {
		if err := e.Wait(&w, &p.asking); err != nil {
			err = gate.EndOf(err)
			if err == nil || errors.Is(err, context.DeadlineExceeded) {
				err = provider.OpError("lookup", provider.ErrResource, "nobody has answered to the name %q", name)
			}
			return ethertype.Addr{}, err
		}
	}
	return p.found[name], nil
}

// answer hears who has a name.
func (p *Provider) answer(name string, at ethertype.Addr) {
	if _, asked := p.found[name]; asked {
		p.found[name] = at
		p.asking.Open(&p.card.engine)
	}
}
