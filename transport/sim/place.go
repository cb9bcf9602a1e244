package sim

import "github.com/bobnet-go/bobnet/transport"

// Place implements transport.Parking: processes that use one station may wait beside
// the one in Wait.
func (s *Station) Place() transport.Place { return &place{station: s} }

// place is where one process waits.
type place struct {
	station *Station
	p       *proc // who waits, or nil
	woken   bool
}

// Wait implements transport.Place. It blocks the process, and lets the world go on.
func (pl *place) Wait(until int64) {
	w := pl.station.world
	if !pl.woken {
		pl.p = w.caller()
		w.block(nil, until) // fails for the goroutine outside only, which learns it from its next call
		pl.p = nil
	}
	pl.woken = false
}

// Wake implements transport.Place.
func (pl *place) Wake() {
	pl.woken = true
	if pl.p != nil {
		pl.station.world.unblock(pl.p)
	}
}
