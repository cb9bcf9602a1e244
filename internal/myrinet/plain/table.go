package plain

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/transport/myrinet"
)

// ErrTable is what errors wrap that say why a table of routes cannot be.
var ErrTable = errors.New("plain: the table of routes does not fit")

// Limits of the table of routes.
const (
	MaxStations = 256 // of a table, as many as the cards of VNT know
	MaxHops     = 24  // of a route in it

	macSize   = 6
	entrySize = 32 // address, number of turns, an octet that is 0, turns as octets of a packet
	turnsAt   = entrySize - MaxHops
)

// Route says how a station is reached.
type Route struct {
	To    ethertype.MAC // ethertype.Broadcast for groups, and for stations that the table does not have
	Turns myrinet.Route
}

// table is routes in SRAM, by address.
type table struct {
	mem []byte
	n   int
}

// set replaces the table. On an error it is as before.
func (t *table) set(routes []Route) error {
	if len(routes) > MaxStations {
		return fmt.Errorf("%w: it has %d stations, at most %d", ErrTable, len(routes), MaxStations)
	}
	sorted := slices.Clone(routes)
	slices.SortFunc(sorted, func(a, b Route) int { return bytes.Compare(a.To[:], b.To[:]) })
	for i := range sorted {
		r := &sorted[i]
		switch err := r.Turns.Check(); {
		case err != nil:
			return fmt.Errorf("%w: to %v: %w", ErrTable, r.To, err)
		case len(r.Turns) > MaxHops:
			return fmt.Errorf("%w: the route to %v has %d turns, at most %d", ErrTable, r.To, len(r.Turns), MaxHops)
		case r.To.IsGroup() && r.To != ethertype.Broadcast:
			return fmt.Errorf("%w: %v is a group: frames to groups go to all stations, or by the entry for %v", ErrTable, r.To, ethertype.Broadcast)
		case i > 0 && r.To == sorted[i-1].To:
			return fmt.Errorf("%w: there are two routes to %v", ErrTable, r.To)
		}
	}
	for i := range sorted {
		t.put(i, &sorted[i])
	}
	t.n = len(sorted)
	return nil
}

func (t *table) put(i int, r *Route) {
	e := t.entry(i)
	clear(e)
	copy(e, r.To[:])
	e[macSize] = byte(len(r.Turns))
	for k, turn := range r.Turns {
		e[turnsAt+k] = ethertype.PutTurn(int(turn))
	}
}

func (t *table) entry(i int) []byte { return t.mem[i*entrySize:][:entrySize] }

// station returns the address of entry i.
func (t *table) station(i int) ethertype.MAC { return ethertype.MAC(t.entry(i)) }

// turns returns the route of entry i, as octets of a packet.
func (t *table) turns(i int) []byte {
	e := t.entry(i)
	return e[turnsAt:][:min(int(e[macSize]), MaxHops)]
}

// all returns the entry for the broadcast address, -1 if there is none. No address sorts
// behind it.
func (t *table) all() int {
	if t.n > 0 && t.station(t.n-1) == ethertype.Broadcast {
		return t.n - 1
	}
	return -1
}

// find returns the entry by which a station is reached, -1 if there is none.
func (t *table) find(to ethertype.MAC) int {
	lo, hi := 0, t.n
	for lo < hi {
		mid := (lo + hi) / 2
		if bytes.Compare(t.entry(mid)[:macSize], to[:]) < 0 {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo < t.n && t.station(lo) == to {
		return lo
	}
	return t.all()
}
