package lanai

import (
	"fmt"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/myrinet/mapper"
	"github.com/bobnet-go/bobnet/transport/myrinet"
)

// Limits of the table of cards.
const (
	MaxCards = 256 // with which a card speaks, itself among them
	MaxHops  = 24  // of a route

	peerSize = 32 // octets of an entry: address, number of turns, an octet that is 0, turns
	turnsAt  = peerSize - MaxHops
	noRoute  = 0xff
)

// Route says how a card is reached.
type Route struct {
	To    ethertype.MAC // ethertype.Broadcast for all that the table does not have
	Turns myrinet.Route
}

// straight is the table of a card that knows nobody: what a direct cable needs.
var straight = []Route{{To: ethertype.Broadcast}}

// peers is the cards that this one speaks with, by numbers that they keep, because the
// tables of channels go by them. Entry 0 is for all cards without a route of their own.
type peers struct {
	mem  []byte // in SRAM
	n    int
	idle func(i int) bool      // nothing is under way to or from a card, and its number may be another one's
	last int                   // number that was given again last
	by   map[ethertype.MAC]int // where in mem, as a hash of addresses would say
}

func (t *peers) init(mem []byte, idle func(i int) bool) {
	t.mem, t.n, t.by, t.idle, t.last = mem, 1, map[ethertype.MAC]int{}, idle, 0
	t.entry(0)[6] = noRoute
}

func (t *peers) entry(i int) []byte { return t.mem[i*peerSize:][:peerSize] }

// number returns the number of a card, which it gets if it has none and there is room.
func (t *peers) number(mac ethertype.MAC) (i int, ok bool) {
	if i, ok = t.by[mac]; ok {
		return i, true
	}
	if mac.IsGroup() {
		return 0, false
	}
	if i = t.n; i < len(t.mem)/peerSize {
		t.n++
	} else if i, ok = t.again(); !ok {
		return 0, false
	}
	copy(t.entry(i), mac[:])
	t.entry(i)[6] = noRoute
	t.by[mac] = i
	return i, true
}

// again takes the number of a card that has no route of its own, and with which nothing is
// under way: who makes up addresses leaves room for others.
func (t *peers) again() (i int, ok bool) {
	for k := range t.n - 1 {
		i = 1 + (t.last+k)%(t.n-1)
		if t.entry(i)[6] == noRoute && t.idle(i) {
			delete(t.by, t.mac(i))
			t.last = i
			return i, true
		}
	}
	return 0, false
}

// of returns the number of a card that a packet is from: one that there is no way to gets none.
func (t *peers) of(mac ethertype.MAC) (i int, ok bool) {
	if i, ok = t.by[mac]; ok || t.entry(0)[6] == noRoute {
		return i, ok
	}
	return t.number(mac)
}

// mac returns the address of a card.
func (t *peers) mac(i int) ethertype.MAC { return ethertype.MAC(t.entry(i)) }

// turns returns the route to a card, as octets of a packet, and whether there is one.
func (t *peers) turns(i int) (turns []byte, ok bool) {
	e := t.entry(i)
	if e[6] == noRoute {
		e = t.entry(0)
	}
	if e[6] == noRoute {
		return nil, false
	}
	return e[turnsAt:][:min(int(e[6]), MaxHops)], true
}

// set replaces all routes. On an error they are as before.
func (t *peers) set(routes []Route) error {
	for i := range routes {
		r := &routes[i]
		if err := r.Turns.Check(); err != nil {
			return fmt.Errorf("lanai: the route to %v: %w", r.To, err)
		}
		if len(r.Turns) > MaxHops || r.To.IsGroup() && r.To != ethertype.Broadcast {
			return fmt.Errorf("lanai: a route of %d turns to %v: want at most %d, to a card", len(r.Turns), r.To, MaxHops)
		}
	}
	for i := range t.n {
		t.entry(i)[6] = noRoute
	}
	for i := range routes {
		r := &routes[i]
		at, ok := 0, r.To == ethertype.Broadcast
		if !ok {
			at, ok = t.number(r.To)
		}
		if !ok {
			return fmt.Errorf("lanai: there is no room for a route to %v: the table has %d cards", r.To, MaxCards)
		}
		e := t.entry(at)
		e[6] = byte(len(r.Turns))
		for k, turn := range r.Turns {
			e[turnsAt+k] = ethertype.PutTurn(int(turn))
		}
	}
	return nil
}

// ways appends the cards that a query is sent to: those with a route of their own, and
// entry 0 if it has one.
func (t *peers) ways(to []int) []int {
	for i := range t.n {
		if t.entry(i)[6] != noRoute {
			to = append(to, i)
		}
	}
	return to
}

// SetRoutes implements mapper.Card.
func (p *program) SetRoutes(entries []mapper.Entry) {
	fit := p.maps.Fits(entries, MaxHops)
	routes := make([]Route, 0, len(fit))
	for _, e := range fit {
		routes = append(routes, Route{To: e.Host, Turns: e.Route})
	}
	if len(routes) == 0 || p.peers.set(routes) != nil {
		_ = p.peers.set(straight) // it always fits
	}
	p.refuseRoutes()
}
