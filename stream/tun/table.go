package tun

import (
	"net/netip"
	"slices"
)

// table knows which neighbour has which address, and what waits to be found. It is a value of
// its own, without a clock: times are nanoseconds of the caller's.
type table struct {
	entries  map[netip.Addr]*entry
	searches int
}

// entry is what is known of an address.
type entry struct {
	peer   *peer // nil unless it is found
	search bool  // the segment is being asked
	quiet  int64 // not asked again before, nobody has answered
	wait   []*buffer
	held   int64 // memory of what waits
}

// hold has a packet wait.
func (e *entry) hold(b *buffer) {
	e.wait = append(e.wait, b)
	e.held += b.cost()
}

// release returns what waits.
func (e *entry) release() (wait []*buffer) {
	wait, e.wait, e.held = e.wait, nil, 0
	return wait
}

const (
	// maxEntries bounds the addresses that are remembered, as programs may send to any.
	maxEntries = 4096
	// maxSearches bounds the addresses that are asked for at the same time.
	maxSearches = 64
	// maxWait is how many bytes of memory packets take that wait for an address to be found: no
	// more come then. All fragments of a datagram of 64 KiB fit, of the shortest MTU.
	maxWait = 256 << 10
	// quietTime is how long an address that nobody has answered to is not asked for again.
	quietTime = 1_000_000_000
)

// verdict says what to do with a packet.
type verdict uint8

const (
	toPeer   verdict = iota
	toSearch         // it waits; ask for its address
	toWait           // it waits; its address is being asked for
	toNobody         // nobody has answered to its address
	toDrop           // too many wait
)

func newTable() table { return table{entries: map[netip.Addr]*entry{}} }

// peer returns the neighbour that has an address, nil if none is known.
func (t *table) peer(a netip.Addr) *peer {
	if e := t.entries[a]; e != nil {
		return e.peer
	}
	return nil
}

// route says what to do with a packet for an address.
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

// forget drops the addresses that nobody has answered to, and reports whether there are any.
func (t *table) forget(now int64) bool {
	before := len(t.entries)
	for a, e := range t.entries {
		if e.peer == nil && !e.search && now >= e.quiet {
			delete(t.entries, a)
		}
	}
	return len(t.entries) < before
}

// found ends the search for an address, if there is one, because p has it, and returns what
// waits for it. The neighbour that had it before, if any, is returned too.
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

// failed ends the search for an address, and returns what waits for it: nobody has answered,
// or p has been found meanwhile.
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

// gone forgets a neighbour.
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

// peers returns the neighbours, each once, with their addresses.
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
