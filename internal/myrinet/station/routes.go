package station

import (
	"errors"
	"fmt"
	"slices"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/transport/myrinet"
)

// ErrRoutes means that a Table does not accept the routes.
var ErrRoutes = errors.New("myrinet: the table of routes does not fit")

// MaxHops is the maximum number of turns of a route in a Table.
const MaxHops = 24

// An entry of a Table consists of an address, the number of turns plus 1, a zero byte, and the
// turns encoded as in a packet.
const (
	EntrySize = 32 // in bytes of SRAM
	hopsAt    = 6
	turnsAt   = EntrySize - MaxHops
)

// Straight is the route table of a card before it has routes to other cards. It suffices for a direct
// cable. Behind a switch it is harmless, because the switch drops packets without a route at once.
var Straight = []myrinet.HostRoute{{To: ethertype.Broadcast}}

// Table is a card's table of stations with the route to each, in SRAM. A station keeps its number,
// which other tables of the card use. Entry 0 is either the card itself or ethertype.Broadcast,
// which stands for all stations without a route of their own.
type Table struct {
	mem  []byte
	n    int
	idle func(i int) bool
	last int                   // the last number that was reused
	by   map[ethertype.MAC]int // index of the addresses in mem
}

// Init makes an empty table. A full table reuses the number of a station without a route if idle
// allows it. nil allows none.
func (t *Table) Init(mem []byte, entry0 ethertype.MAC, idle func(i int) bool) {
	*t = Table{mem: mem, n: 1, idle: idle, by: map[ethertype.MAC]int{}}
	clear(t.entry(0))
	copy(t.entry(0), entry0[:])
	if !entry0.IsGroup() {
		t.by[entry0] = 0
	}
}

func (t *Table) entry(i int) []byte { return t.mem[i*EntrySize:][:EntrySize] }

func (t *Table) routed(i int) bool { return t.entry(i)[hopsAt] != 0 }

// Len returns the number of entries, including entry 0.
func (t *Table) Len() int { return t.n }

// MAC returns the address of a station.
func (t *Table) MAC(i int) ethertype.MAC { return ethertype.MAC(t.entry(i)) }

// Find returns the number of a station.
func (t *Table) Find(mac ethertype.MAC) (i int, ok bool) {
	i, ok = t.by[mac]
	return i, ok
}

// Add returns the number of a station, and assigns one if necessary. It reports false if there is
// no room, or if mac is a group address.
func (t *Table) Add(mac ethertype.MAC) (i int, ok bool) {
	if i, ok = t.by[mac]; ok {
		return i, true
	}
	if mac.IsGroup() {
		return 0, false
	}
	if i = t.n; i < len(t.mem)/EntrySize {
		t.n++
	} else if i, ok = t.reuse(); !ok {
		return 0, false
	}
	e := t.entry(i)
	clear(e)
	copy(e, mac[:])
	t.by[mac] = i
	return i, true
}

// reuse returns the number of an idle station without a route, so that invented addresses do not
// fill the table permanently.
func (t *Table) reuse() (i int, ok bool) {
	for k := range t.n - 1 {
		i = 1 + (t.last+k)%(t.n-1)
		if !t.routed(i) && t.idle != nil && t.idle(i) {
			delete(t.by, t.MAC(i))
			t.last = i
			return i, true
		}
	}
	return 0, false
}

// Route returns the route to a station, or else the route of entry 0, encoded as in a packet. It
// reports false if there is none.
func (t *Table) Route(i int) (turns []byte, ok bool) {
	if !t.routed(i) {
		i = 0
	}
	e := t.entry(i)
	if e[hopsAt] == 0 {
		return nil, false
	}
	return e[turnsAt:][:min(int(e[hopsAt])-1, MaxHops)], true
}

// Routed appends the numbers of the entries that have a route of their own.
func (t *Table) Routed(to []int) []int {
	for i := range t.n {
		if t.routed(i) {
			to = append(to, i)
		}
	}
	return to
}

// Set replaces all routes. Stations without a new route keep their numbers. A route to the card
// itself is ignored. If a route is invalid, the table does not change. If there is no room for all
// routes, the table has those that fit.
func (t *Table) Set(routes []myrinet.HostRoute) (err error) {
	for i := range routes {
		if err := t.check(&routes[i], routes[:i]); err != nil {
			return fmt.Errorf("%w: %w", ErrRoutes, err)
		}
	}
	for i := range t.n {
		t.entry(i)[hopsAt] = 0
	}
	for i := range routes {
		r := &routes[i]
		k, ok := 0, r.To == ethertype.Broadcast
		if !ok {
			if k, ok = t.Add(r.To); ok && k == 0 {
				continue
			}
		}
		if !ok {
			err = fmt.Errorf("%w: no room for %v: all %d entries are in use", ErrRoutes, r.To, t.n)
			continue
		}
		e := t.entry(k)
		e[hopsAt] = byte(len(r.Turns)) + 1
		for j, turn := range r.Turns {
			e[turnsAt+j] = framing.PutTurn(int(turn))
		}
	}
	return err
}

// check returns the problem of a route, given the routes before it.
func (t *Table) check(r *myrinet.HostRoute, before []myrinet.HostRoute) error {
	switch err := r.Turns.Check(); {
	case err != nil:
		return fmt.Errorf("route to %v: %w", r.To, err)
	case len(r.Turns) > MaxHops:
		return fmt.Errorf("route to %v: %d turns: want at most %d", r.To, len(r.Turns), MaxHops)
	case r.To.IsGroup() && r.To != t.MAC(0):
		return fmt.Errorf("route to %v: multicast address: want the address of one station", r.To)
	case slices.ContainsFunc(before, func(b myrinet.HostRoute) bool { return b.To == r.To }):
		return fmt.Errorf("route to %v: two routes to this station", r.To)
	}
	return nil
}

// Routes returns those of a mapper's routes that a Table can hold. It counts the others.
func (m *Mapping) Routes(entries []myrinet.HostRoute) (routes []myrinet.HostRoute) {
	for _, e := range entries {
		if len(e.Turns) > MaxHops {
			m.Long++
			continue
		}
		routes = append(routes, e)
	}
	return routes
}
