package fault

import (
	"math/rand/v2"
	"slices"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/transport"
)

// maxHeld is the most frames that a shaper holds: the queue of a small switch.
const maxHeld = 1024

// held is a copy of a frame on its way through a shaper.
type held struct {
	data  []byte
	due   int64 // when it comes out
	after uint64
}

// shaper decides the fate of the frames of one direction. It is pure: time is
// an argument, chance comes from the seed. A frame goes from admit to delayed,
// by way of late if it is to be overtaken, and from there in order of due time
// to ready.
type shaper struct {
	opts   *Options
	dir    Direction
	rng    *rand.Rand
	count  uint64 // frames admitted
	passed uint64 // of them, those that were not made late

	late    []held // wait until passed reaches after, or until due
	delayed []held // sorted by due
	ready   []held // to be taken in order
	free    [][]byte
	faults  uint64
}

func newShaper(opts *Options, dir Direction) *shaper {
	return &shaper{opts: opts, dir: dir, rng: rand.New(rand.NewPCG(opts.Seed, uint64(dir)))}
}

// held returns how many frames are inside.
func (s *shaper) held() int { return len(s.late) + len(s.delayed) + len(s.ready) }

// full reports whether the shaper may have no room for one more frame.
func (s *shaper) full() bool { return s.held()+2 > maxHeld }

// admit copies f and decides what becomes of it. The caller has seen that the
// shaper is not full.
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
		s.delay(held{data: append(s.buffer(), data...), due: due})
	}
	if action&Reorder != 0 {
		by := 1 + s.rng.Uint64N(uint64(s.opts.ReorderBy))
		s.late = append(s.late, held{data: data, due: due + int64(s.opts.ReorderWait), after: s.passed + by})
		return
	}
	s.delay(held{data: data, due: due})
	s.passed++
	s.overtaken(due)
}

// choose decides on faults. It draws as many random numbers for every frame,
// so that one probability does not change what the others hit.
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

// corrupt flips one to four bits behind the Ethernet header. Two flips may hit
// the same bit, so the first is never repeated.
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

// delay enters h behind everything that is due no later.
func (s *shaper) delay(h held) {
	at := len(s.delayed)
	for at > 0 && s.delayed[at-1].due > h.due {
		at--
	}
	s.delayed = slices.Insert(s.delayed, at, h)
}

// overtaken lets the late frames go that enough others have overtaken, behind
// the one that is due at due.
func (s *shaper) overtaken(due int64) {
	s.late = slices.DeleteFunc(s.late, func(h held) bool {
		if h.after > s.passed {
			return false
		}
		h.due = due
		s.delay(h)
		return true
	})
}

// release moves what is due at now to ready.
func (s *shaper) release(now int64) {
	if len(s.late) > 0 {
		s.late = slices.DeleteFunc(s.late, func(h held) bool {
			if h.due > now {
				return false
			}
			s.delay(h)
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

// next returns when release will have something to do, or Forever; 0 if more
// than lent frames are ready.
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

// take removes the first n ready frames. Their memory is used again.
func (s *shaper) take(n int) {
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
