package sim

import "github.com/bobnet-go/bobnet/internal/link/optional"

// Place returns a new place to wait at. It lets further processes of the station wait, in addition
// to the one in Wait.
func (s *Station) Place() optional.Place { return &place{Waiter{world: s.world}} }

// place is where one process waits. Its Wait returns no error; the next call that does returns the
// world's error.
type place struct{ waiter Waiter }

// Wait blocks until Wake is called or the clock reaches until.
func (p *place) Wait(until int64) { p.waiter.Wait(until) }

// Wake ends the current or the next Wait.
func (p *place) Wake() { p.waiter.Wake() }

// Waiter is a place to wait at without a station, for a link in virtual time that consists of
// events, such as a card of an emulated network.
type Waiter struct {
	world *World
	p     *proc // the waiting process, or nil
	woken bool
}

// Waiter returns a new place for one process at a time to wait at.
func (w *World) Waiter() *Waiter { return &Waiter{world: w} }

// Wait blocks the process, and lets the world continue, until Wake is called or the world's clock
// reaches until. A Wake since the last Wait ends it at once. Called without Run, it may return the
// error of Run; within a process the error is always nil.
func (x *Waiter) Wait(until int64) (err error) {
	if !x.woken {
		x.p = x.world.caller()
		err = x.world.block(nil, until)
		x.p = nil
	}
	x.woken = false
	return err
}

// Wake ends the current or the next Wait.
func (x *Waiter) Wake() {
	x.woken = true
	if x.p != nil {
		x.world.unblock(x.p)
	}
}
