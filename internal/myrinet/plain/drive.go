package plain

import (
	"github.com/bobnet-go/bobnet/internal/myrinet/station"
	"github.com/bobnet-go/bobnet/transport"
)

// host is the host's side of a live card.
type host live

var _ station.Driver = (*host)(nil)

// Found implements station.Driver.
func (h *host) Found() { h.page.Ring() }

// Serve implements station.Driver: a step leaves nothing to the host.
func (h *host) Serve() bool { return false }

// Enough implements station.Driver.
func (h *host) Enough() bool { return h.has() }

// drive moves what has come and what is to be sent. The caller holds the lock.
func (v *live) drive() error {
	next, err := v.at.Drive(v.at.Cable.Now())
	v.due.Store(next)
	if v.asleep && (v.has() || next < v.until) {
		v.asleep = false
		v.at.Cable.Wake()
	}
	return err
}

func (v *live) holds() bool { return v.at.Holds() }

// lends has the card take frames from where they lie: drive moves them at once, or not.
func (v *live) lends() bool { return true }

// ready says so, too, when cable or card want to be driven: who spins on Ready drives them
// by Recv alone.
func (v *live) ready() bool { return v.at.Cable.Ready() || v.at.Cable.Now() >= v.due.Load() }
func (v *live) now() int64  { return v.at.Cable.Now() }

func (v *live) wake() {
	v.woken.Store(true)
	v.at.Cable.Wake()
}

// wait drives cable and card until there is a frame, or no reason to wait any more.
func (v *live) wait(until int64) error {
	if !v.info.Virtual {
		if !v.gate.Enter() {
			return transport.ErrClosed
		}
		defer v.gate.Leave()
	}
	for first := true; ; first = false {
		next, over, err := v.prepare(until, first)
		if over || err != nil {
			return err
		}
		if first {
			v.counters.Waits.Add(1)
		}
		if err := v.at.Cable.Wait(next); err != nil {
			v.mu.Lock()
			v.at.Doubt()
			v.mu.Unlock()
			return err
		}
	}
}

// prepare drives, and reports whether the wait is over, or else until when it is to sleep.
// In virtual time one whose time has come sleeps once, so that others have their turn.
func (v *live) prepare(until int64, first bool) (next int64, over bool, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.asleep = false
	if v.closed.Load() {
		return 0, true, transport.ErrClosed
	}
	if err := v.drive(); err != nil {
		return 0, true, err
	}
	if v.has() || v.woken.Swap(false) || v.at.Cable.Now() >= until && !(first && v.info.Virtual) {
		return 0, true, nil
	}
	v.asleep, v.until = true, min(until, v.at.Next())
	return v.until, false, nil
}

// close sends what is to be sent, as far as the cable takes it now, and closes it.
func (v *live) close() {
	v.mu.Lock()
	_ = v.drive() // what it cannot send is lost, as on any link
	v.mu.Unlock()
	if !v.info.Virtual { // there no other process can leave while this one waits
		v.gate.Shut(v.at.Cable.Wake)
	}
	v.at.Cable.Close()
}
