package tun

import (
	"net/netip"
	"slices"
)

// table maps addresses to neighbours, and holds packets for addresses that are being looked up. It
// has no clock: the caller passes times in nanoseconds.
type table struct {
	entries  map[netip.Addr]*entry
	searches int
}

// entry is the state of an address.
type entry struct {
	peer   *peer // nil until found
	search bool  // a lookup is in progress
	quiet  int64 // no new lookup before this time, because the last one had no answer
	wait   []*buffer
	held   int64 // memory of waiting packets
}

// hold adds a waiting packet.
func (e *entry) hold(b *buffer) {
	e.wait = append(e.wait, b)
	e.held += b.cost()
}

// release removes and returns the waiting packets.
func (e *entry) release() (wait []*buffer) {
	wait, e.wait, e.held = e.wait, nil, 0
	return wait
}

const (
	// maxEntries bounds the addresses in the table, because programs may send to any address.
	maxEntries = 4096
	// maxSearches bounds the concurrent lookups.
	maxSearches = 64
	// maxWait is the most bytes of memory of packets that wait for a lookup of one address. Further
	// packets are dropped. All fragments of a 64 KiB datagram fit, at the smallest MTU.
	maxWait = 256 << 10
	// quietTime is the time after a lookup without an answer until the next lookup of the address.
	quietTime = 1_000_000_000
)

// verdict is the decision about a packet.
type verdict uint8

const (
	toPeer   verdict = iota
	toSearch         // it waits; look up its address
	toWait           // it waits; its address is being looked up
	toNobody         // no host answers to its address
	toDrop           // too many packets wait
)

func newTable() table { return table{entries: map[netip.Addr]*entry{}} }

// peer returns the neighbour with an address, or nil if none is known.
func (t *table) peer(a netip.Addr) *peer {
	if e := t.entries[a]; e != nil {
		return e.peer
	}
	return nil
}

// route decides what to do with a packet for an address.
func (t *table) route(now int64, to netip.Addr, b *buffer) (*peer, verdict) {
	e := t.entries[to]
	switch {
	case e != nil && e.peer != nil:
		return e.peer, toPeer
	case e != nil && e.search && e.held >= maxWait:
		return nil, toDrop
	case e != nil && e.search:
		e.hold(b)
		return nil, toWait
	case e != nil && now < e.quiet:
		return nil, toNobody
	case t.searches >= maxSearches:
		return nil, toDrop
	}
	if e == nil {
		if len(t.entries) >= maxEntries && !t.forget(now) {
			return nil, toDrop
		}
		e = &entry{}
		t.entries[to] = e
	}
	e.search = true
	e.hold(b)
	t.searches++
	return nil, toSearch
}

// forget removes addresses to which no host has answered, and reports whether there were any.
func (t *table) forget(now int64) bool {
	before := len(t.entries)
	for a, e := range t.entries {
		if e.peer == nil && !e.search && now >= e.quiet {
			delete(t.entries, a)
		}
	}
	return len(t.entries) < before
}

// found ends the lookup of an address, if there is one, with the result p. It returns the waiting
// packets, and the neighbour that had the address before, if any.
func (t *table) found(a netip.Addr, p *peer) (wait []*buffer, before *peer) {
	e := t.entries[a]
	if e == nil {
		if len(t.entries) >= maxEntries && !t.forget(1<<62) {
			return nil, nil
		}
		e = &entry{}
		t.entries[a] = e
	}
	if e.search {
		e.search = false
		t.searches--
	}
	wait = e.release()
	before, e.peer = e.peer, p
	if before == p {
		before = nil
	}
	return wait, before
}

// failed ends the lookup of an address without an answer, and returns the waiting packets. p is the
// neighbour if one was found meanwhile.
func (t *table) failed(now int64, a netip.Addr) (wait []*buffer, p *peer) {
	e := t.entries[a]
	if e == nil {
		return nil, nil
	}
	if e.search {
		e.search = false
		t.searches--
	}
	wait = e.release()
	if e.peer == nil {
		e.quiet = now + quietTime
	}
	return wait, e.peer
}

// gone removes a neighbour.
func (t *table) gone(p *peer) {
	for a, e := range t.entries {
		if e.peer != p {
			continue
		}
		if e.peer = nil; !e.search {
			delete(t.entries, a)
		}
	}
}

// peers returns each neighbour once, with its addresses.
func (t *table) peers() map[*peer][]netip.Addr {
	all := map[*peer][]netip.Addr{}
	for a, e := range t.entries {
		if e.peer != nil {
			all[e.peer] = append(all[e.peer], a)
		}
	}
	for _, addrs := range all {
		slices.SortFunc(addrs, netip.Addr.Compare)
	}
	return all
}
