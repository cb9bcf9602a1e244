package plain

import (
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/myrinet"
)

// station is what the end of a live cable knows of its card. The card's program works
// whenever something has happened, so that what it sends in return leaves with what else
// the end has to send.
type station live

var _ myrinet.Placer = (*station)(nil)

// Room implements myrinet.Host.
func (s *station) Room(n int) bool { return s.card.Room(n) }

// Place implements myrinet.Placer.
func (s *station) Place(n int) []byte { return s.card.Place(n) }

// Arrived implements myrinet.Host.
func (s *station) Arrived(packet []byte, whole bool) {
	s.card.Arrived(packet, whole)
	(*live)(s).step()
}

// Sent implements myrinet.Host.
func (s *station) Sent() {
	s.card.Sent()
	(*live)(s).step()
}

// step has the program do what there is to do. What happens meanwhile it sees to itself.
func (v *live) step() {
	if v.stepping {
		return
	}
	if v.card.Pending() || v.clock >= v.stepAt {
		v.stepping = true
		v.stepAt = v.card.Poll(v.clock)
		v.stepping = false
	}
}

// mostRounds is how often one call drives cable and card if there is ever more to do.
const mostRounds = 4

// drive moves what has come and what is to be sent. The caller holds the lock.
func (v *live) drive() (err error) {
	v.clock = v.cable.Now()
	v.step()
	for range mostRounds {
		v.next, err = v.end.Poll()
		if !v.found && v.end.Up() {
			v.found = true
			v.page.Ring()
		}
		v.step()
		v.next = min(v.next, v.stepAt)
		if err != nil || v.has() || v.next > v.clock {
			break
		}
	}
	v.due.Store(v.next)
	if v.asleep && (v.has() || v.next < v.until) {
		v.asleep = false
		v.cable.Wake()
	}
	return err
}

// holds keeps what is sent until the other end of the cable is found, which takes a moment
// when both are new. When it is gone later, packets are lost, as from a cable that is out.
func (v *live) holds() bool { return !v.found }

// keeps has frames wait in the fabric that the host has no room for: it drives the card, so
// that one which does not look takes nothing out of the fabric in any case.
func (v *live) keeps() bool { return true }

// lends has the card take frames from where they lie: drive moves them at once, or not.
func (v *live) lends() bool { return true }

// ready says so, too, when cable or card want to be driven: who spins on Ready drives them
// by Recv alone.
func (v *live) ready() bool { return v.cable.Ready() || v.cable.Now() >= v.due.Load() }
func (v *live) now() int64  { return v.cable.Now() }

func (v *live) wake() {
	v.woken.Store(true)
	v.cable.Wake()
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
		if err := v.cable.Wait(next); err != nil {
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
	if v.has() || v.woken.Swap(false) || v.cable.Now() >= until && !(first && v.info.Virtual) {
		return 0, true, nil
	}
	v.asleep, v.until = true, min(until, v.next)
	return v.until, false, nil
}

// close sends what is to be sent, as far as the cable takes it now, and closes it.
func (v *live) close() {
	v.mu.Lock()
	_ = v.drive() // what it cannot send is lost, as on any link
	v.mu.Unlock()
	if !v.info.Virtual { // there no other process can leave while this one waits
		v.gate.Shut(v.cable.Wake)
	}
	v.cable.Close()
}
