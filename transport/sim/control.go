package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/bobnet-go/bobnet/transport"
)

// At schedules fn for the given time of the world's clock, or at once if that time has passed. fn
// may do anything except wait. An fn that the caller keeps and passes again is not allocated again.
func (w *World) At(at int64, fn func()) { w.schedule(at, timed(fn)) }

// Partition cuts the segment between a and b in both directions if on is true, and restores it
// otherwise. Frames that have not yet reached the switch count as not yet sent.
func (w *World) Partition(a, b *Station, on bool) {
	for _, pair := range [][2]*Station{{a, b}, {b, a}} {
		if pair[0].cut == nil {
			pair[0].cut = make(map[*Station]bool)
		}
		if on {
			pair[0].cut[pair[1]] = true
		} else {
			delete(pair[0].cut, pair[1])
		}
	}
}

// Isolate moves the given stations to a segment of their own, without any other station. Each
// station is on one segment; initially all are on the same.
func (w *World) Isolate(stations ...*Station) {
	w.islands++
	for _, s := range stations {
		s.island = w.islands
	}
}

// Heal undoes every Partition and Isolate.
func (w *World) Heal() {
	for _, s := range w.stations {
		s.island = 0
		s.cut = nil
	}
}

// apart reports whether the segment is cut between s and t.
func (s *Station) apart(t *Station) bool { return s.island != t.island || s.cut[t] }

// Kill makes a station's host vanish. Frames that it sent and that have not reached the switch are
// lost, nothing reaches it, and its calls return an error that wraps transport.ErrClosed, so that
// its process ends.
func (w *World) Kill(s *Station) {
	s.killed = true
	s.remove(fmt.Errorf("sim: station %s was killed: %w", s.name, transport.ErrClosed))
}

// remove takes the station off the segment, for the given reason.
func (s *Station) remove(why error) {
	if s.gone != nil {
		return
	}
	w := s.world
	s.gone = why
	s.releaseViews()
	for s.rx.Len() > 0 {
		w.pool.release(s.rx.Pop())
	}
	w.stations = slices.DeleteFunc(w.stations, func(t *Station) bool { return t == s })
	if w.byMAC[key(s.mac)] == s {
		delete(w.byMAC, key(s.mac))
	}
	s.wake()
}

// Action is the effect of a Script on a frame. The zero Action passes the frame. Random faults
// apply afterwards.
type Action struct {
	Drop      bool
	Duplicate bool
	Corrupt   bool
	Delay     time.Duration // other frames may overtake it
}

// Script decides the fate of each frame at the output of the switch, once per receiver. It must not
// change or keep the frame, and must not wait. It must be deterministic for the world to be so.
type Script func(now int64, from, to *Station, frame []byte) Action

// Script installs s, or removes the script if s is nil.
func (w *World) Script(s Script) { w.script = s }

func (w *World) runScript(p passage) {
	a := w.script(w.now, p.from, p.to, p.frame.data)
	if a.Drop {
		w.drop(p, &w.stats.Scripted, "dropped by script")
		return
	}
	if a.Duplicate {
		w.duplicate(p)
	}
	if a.Corrupt {
		p = w.corrupt(p)
	}
	if a.Delay > 0 {
		w.At(w.now+int64(a.Delay), func() { w.disturb(p) })
		return
	}
	w.disturb(p)
}
