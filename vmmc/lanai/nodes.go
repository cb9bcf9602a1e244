package lanai

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/myrinet/plain"
)

// ErrRoutes is what errors wrap that say why a table of routes cannot be.
var ErrRoutes = errors.New("lanai: the table of nodes does not fit")

// nodes is the card's table of nodes, in SRAM: the address of each, and the way to it. A
// node keeps its number, which outgoing page tables name. Node 0 is the card itself.
type nodes struct {
	mem []byte
	n   int
}

const (
	nodeSize  = 32 // address, number of turns and 1, an octet that is 0, turns as octets of a packet
	nodeTurns = nodeSize - plain.MaxHops
	nodeHops  = 6
)

func (t *nodes) entry(i int) []byte { return t.mem[i*nodeSize:][:nodeSize] }

// mac returns the address of a node.
func (t *nodes) mac(i int) ethertype.MAC { return ethertype.MAC(t.entry(i)) }

// route returns the turns to a node, as octets of a packet; ok is false if there is no way.
func (t *nodes) route(i int) (turns []byte, ok bool) {
	e := t.entry(i)
	if e[nodeHops] == 0 {
		return nil, false
	}
	return e[nodeTurns:][:min(int(e[nodeHops])-1, plain.MaxHops)], true
}

// find returns the number of a node, -1 if there is none.
func (t *nodes) find(mac ethertype.MAC) int {
	for i := range t.n {
		if bytes.Equal(t.entry(i)[:len(mac)], mac[:]) {
			return i
		}
	}
	return -1
}

// reachable returns how many other nodes have routes.
func (t *nodes) reachable() (n int) {
	for i := 1; i < t.n; i++ {
		if _, ok := t.route(i); ok {
			n++
		}
	}
	return n
}

// add returns the number of a node, a new one if it has none; -1 if the table is full.
func (t *nodes) add(mac ethertype.MAC) int {
	if i := t.find(mac); i >= 0 {
		return i
	}
	if t.n == len(t.mem)/nodeSize {
		return -1
	}
	e := t.entry(t.n)
	clear(e)
	copy(e, mac[:])
	t.n++
	return t.n - 1
}

// set replaces all routes. Nodes without one keep their numbers.
func (t *nodes) set(routes []plain.Route) error {
	for i := range routes {
		r := &routes[i]
		switch err := r.Turns.Check(); {
		case err != nil:
			return fmt.Errorf("%w: to %v: %w", ErrRoutes, r.To, err)
		case len(r.Turns) > plain.MaxHops:
			return fmt.Errorf("%w: the route to %v has %d turns, at most %d", ErrRoutes, r.To, len(r.Turns), plain.MaxHops)
		case r.To.IsGroup():
			return fmt.Errorf("%w: %v is a group, routes lead to nodes", ErrRoutes, r.To)
		}
	}
	for i := 1; i < t.n; i++ {
		t.entry(i)[nodeHops] = 0
	}
	for i := range routes {
		r := &routes[i]
		k := t.add(r.To)
		if k < 0 {
			return fmt.Errorf("%w: it has %d nodes, %v is one more (Config.Nodes)", ErrRoutes, t.n, r.To)
		}
		if k == 0 {
			continue // it sends to itself without the network
		}
		e := t.entry(k)
		e[nodeHops] = byte(len(r.Turns)) + 1
		for j, turn := range r.Turns {
			e[nodeTurns+j] = ethertype.PutTurn(int(turn))
		}
	}
	return nil
}
