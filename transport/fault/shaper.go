package fault

import (
	"math/rand/v2"
	"slices"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/transport"
)

// maxQueued is the most frames that a shaper delays at a time, as many as the queue of a
// small switch.
const maxQueued = 1024

// queued is a copy of a frame in a shaper.
type queued struct {
	data  []byte
	due   int64  // when the frame is released
	after uint64 // number of frames that must have passed before a late frame is released
}

// shaper drops, copies, delays, reorders and corrupts the frames of one direction. It is
// pure: time is an argument, and random numbers come from the seed. admit puts a frame
// into delayed, or first into late if others are to overtake it. From delayed frames go
// to ready, in the order of their due times.
type shaper struct {
	opts   *Options
	dir    Direction
	rng    *rand.Rand
	count  uint64 // frames admitted
	passed uint64 // admitted frames that were not made late

	late    []queued // each waits until passed reaches its after, or until its due
	delayed []queued // sorted by due
	ready   []queued // to be taken in order
	free    [][]byte
	faults  uint64
}

func newShaper(opts *Options, dir Direction) *shaper {
	return &shaper{opts: opts, dir: dir, rng: rand.New(rand.NewPCG(opts.Seed, uint64(dir)))}
}

// inside returns the number of frames in the shaper.
func (s *shaper) inside() int { return len(s.late) + len(s.delayed) + len(s.ready) }

// full reports whether the shaper may have no room for one more frame.
func (s *shaper) full() bool { return s.inside()+2 > maxQueued }

// admit copies f and determines its faults. The caller must have checked that the shaper is not
// full.
func (s *shaper) admit(f *transport.Frame, now int64) {
	data := f.AppendTo(s.buffer())
	action := s.choose(data)
	if action != Pass {
		s.faults++
	}
	s.count++
	if action&Drop != 0 {
		s.recycle(data)
		return
	}
	if action&Corrupt != 0 {
		s.corrupt(data)
	}
	due := now + int64(s.opts.Delay)
	if s.opts.Jitter > 0 {
		due += s.rng.Int64N(int64(s.opts.Jitter) + 1)
	}
	if due > now && action == Pass {
		s.faults++
	}
	if action&Dup != 0 {
		s.delay(queued{data: append(s.buffer(), data...), due: due})
	}
	if action&Reorder != 0 {
		by := 1 + s.rng.Uint64N(uint64(s.opts.ReorderBy))
		s.late = append(s.late, queued{data: data, due: due + int64(s.opts.ReorderWait), after: s.passed + by})
		return
	}
	s.delay(queued{data: data, due: due})
	s.passed++
	s.overtaken(due)
}

// choose selects the faults of a frame. It draws the same number of random numbers for every frame,
// so that one probability does not change which frames the other faults affect.
func (s *shaper) choose(frame []byte) (a Action) {
	if s.opts.Script != nil {
		return s.opts.Script(s.dir, s.count, frame)
	}
	for _, c := range [...]struct {
		p float64
		a Action
	}{{s.opts.Drop, Drop}, {s.opts.Dup, Dup}, {s.opts.Reorder, Reorder}, {s.opts.Corrupt, Corrupt}} {
		if s.rng.Float64() < c.p {
			a |= c.a
		}
	}
	return a
}

// corrupt flips one to four bits after the Ethernet header. Two flips may hit the same bit, so the
// first is never repeated.
func (s *shaper) corrupt(frame []byte) {
	body := frame[min(ethertype.EthernetSize, len(frame)):]
	if len(body) == 0 {
		return
	}
	first := s.rng.IntN(8 * len(body))
	body[first/8] ^= 1 << (first % 8)
	for range s.rng.IntN(4) {
		if bit := s.rng.IntN(8 * len(body)); bit != first {
			body[bit/8] ^= 1 << (bit % 8)
		}
	}
}

// delay inserts q after all frames that are due no later.
func (s *shaper) delay(q queued) {
	at := len(s.delayed)
	for at > 0 && s.delayed[at-1].due > q.due {
		at--
	}
	s.delayed = slices.Insert(s.delayed, at, q)
}

// overtaken releases the late frames that enough others have overtaken. They follow the frame whose
// due time is due.
func (s *shaper) overtaken(due int64) {
	s.late = slices.DeleteFunc(s.late, func(q queued) bool {
		if q.after > s.passed {
			return false
		}
		q.due = due
		s.delay(q)
		return true
	})
}

// release moves the frames that are due at now to ready.
func (s *shaper) release(now int64) {
	if len(s.late) > 0 {
		s.late = slices.DeleteFunc(s.late, func(q queued) bool {
			if q.due > now {
				return false
			}
			s.delay(q)
			return true
		})
	}
	n := 0
	for n < len(s.delayed) && s.delayed[n].due <= now {
		n++
	}
	s.ready = append(s.ready, s.delayed[:n]...)
	s.delayed = slices.Delete(s.delayed, 0, n)
}

// next returns when release must be called next, or Forever. It returns 0 if more than lent frames
// are ready.
func (s *shaper) next(lent int) int64 {
	if len(s.ready) > lent {
		return 0
	}
	due := transport.Forever
	if len(s.delayed) > 0 {
		due = s.delayed[0].due
	}
	for i := range s.late {
		due = min(due, s.late[i].due)
	}
	return due
}

// removeReady removes the first n ready frames. Their memory is reused.
func (s *shaper) removeReady(n int) {
	for i := range s.ready[:n] {
		s.recycle(s.ready[i].data)
	}
	s.ready = slices.Delete(s.ready, 0, n)
}

func (s *shaper) buffer() []byte {
	if n := len(s.free); n > 0 {
		b := s.free[n-1]
		s.free = s.free[:n-1]
		return b[:0]
	}
	return nil
}

func (s *shaper) recycle(b []byte) { s.free = append(s.free, b) }
