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

// Serve implements station.Driver: steps leave no work to the host.
func (h *host) Serve() bool { return false }

// Enough implements station.Driver.
func (h *host) Enough() bool { return h.has() }

// drive moves received and queued frames. The caller must hold the lock.
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

// lends lets the card read frames from the caller's memory. drive either copies them at once or
// leaves them.
func (v *live) lends() bool { return true }

// ready is also true if cable or card must be driven: a caller that spins on Ready drives them only
// by Recv.
func (v *live) ready() bool { return v.at.Cable.Ready() || v.at.Cable.Now() >= v.due.Load() }
func (v *live) now() int64  { return v.at.Cable.Now() }

func (v *live) wake() {
	v.woken.Store(true)
	v.at.Cable.Wake()
}

// wait drives cable and card until a frame has arrived or the wait is over.
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

// prepare drives cable and card. It reports whether the wait is over, or else until when to sleep.
// In virtual time a wait whose deadline has passed sleeps once, so that other processes run.
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

// close sends queued frames as far as the cable accepts them now, and closes the cable.
func (v *live) close() {
	v.mu.Lock()
	_ = v.drive() // frames that do not leave are lost, as on any link
	v.mu.Unlock()
	if !v.info.Virtual { // there, no other process can leave Wait while this one waits for it
		v.gate.Shut(v.at.Cable.Wake)
	}
	v.at.Cable.Close()
}
