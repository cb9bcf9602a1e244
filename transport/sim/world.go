package sim

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/bobnet-go/bobnet/internal/fifo"
	"github.com/bobnet-go/bobnet/internal/link/optional"
)

// Start is the initial time of every world's clock. It is not 0, because transport.Link.Now never
// returns 0, and large enough that times shortly before it are positive.
const Start = int64(time.Second)

// maxTurns is the maximum number of turns that processes take at one instant. The largest worlds
// need some thousands. A process that polls without waiting would take turns for ever, because the
// clock does not advance.
const maxTurns = 1 << 18

// maxNamed is the maximum number of blocked processes that an error lists.
const maxNamed = 100

// Errors of Run if the world cannot continue; errors wrap these.
var (
	ErrDeadlock = errors.New("sim: deadlock: every process is blocked and nothing is under way")
	ErrLimit    = errors.New("sim: the limit of virtual time is reached")
	ErrStanding = errors.New("sim: processes keep running and time stands still: wait with a deadline after Now")
)

// World is a segment with its stations and the processes that use them. The running process may use
// it and everything that belongs to it, and so may the actions of At and Script. Otherwise one
// goroutine at a time may.
type World struct {
	opts    Options
	rng     *rand.Rand
	now     int64
	events  calendar
	seq     uint64
	pool    pool
	digest  uint64
	stats   Stats
	script  Script
	islands int
	current *proc
	outside *proc // stands for the goroutine that waits without Run

	stations []*Station // the living stations, by creation
	created  int
	byMAC    map[uint64]*Station
	closing  sync.Mutex // held during Station.Close

	procs        []*proc
	live         int
	ready        fifo.Queue[*proc]
	turns        int  // taken at the current instant
	driving      bool // a goroutine is in step
	outsideReady bool
}

// New returns an empty world. It panics if an option is invalid.
func New(opts Options) *World {
	opts = opts.withDefaults()
	return &World{
		opts:    opts,
		rng:     rand.New(rand.NewPCG(opts.Seed, 0x626f626e6574)),
		now:     Start,
		outside: &proc{name: "the goroutine outside"},
		byMAC:   make(map[uint64]*Station),
	}
}

// Now returns the virtual time in nanoseconds. It starts at Start.
func (w *World) Now() int64 { return w.now }

// Sleep blocks the calling process for d of virtual time. Called without Run, it lets the world
// continue for that long, and may return the error of Run; within a process the error is always
// nil.
func (w *World) Sleep(d time.Duration) error { return w.block(nil, w.now+int64(max(d, 0))) }

// Run runs the processes until all have returned. When all of them are blocked, the time advances
// to the next event.
//
// An error wraps ErrDeadlock, ErrLimit or ErrStanding and lists what each process waits for, or is
// a *PanicError. The processes then stay blocked for ever: unwinding them would run their deferred
// calls in a world that has ended.
func (w *World) Run() error {
	w.driving = true
	defer func() { w.driving, w.current = false, nil }()
	for w.live > 0 {
		if err := w.step(); err != nil {
			return err
		}
	}
	return nil
}

// step runs one ready process or, if there is none, all events of the next instant.
func (w *World) step() error {
	if w.ready.Len() > 0 {
		p := w.ready.Pop()
		if w.turns++; w.turns > maxTurns {
			return w.stuck(ErrStanding)
		}
		w.stats.Turns++
		if p == w.outside {
			w.outsideReady = true
			return nil
		}
		return w.resume(p)
	}
	if w.events.len() == 0 {
		return w.stuck(ErrDeadlock)
	}
	if at := w.events.earliest().at; at > w.now {
		if at-Start > int64(w.opts.Limit) {
			return w.stuck(ErrLimit)
		}
		w.now, w.turns = at, 0
	}
	for w.events.len() > 0 {
		next := w.events.earliest()
		if next.at != w.now {
			break
		}
		w.stats.Events++
		act := next.act
		if t, ok := act.(*track); ok {
			t.fire(w)
			continue
		}
		w.events.pop()
		act.fire(w)
	}
	return nil
}

// schedule makes a happen at the given time, or now if that is past.
func (w *World) schedule(at int64, a action) {
	w.seq++
	w.events.push(event{at: max(at, w.now), seq: w.seq, act: a})
}

// stuck describes why the world cannot continue.
func (w *World) stuck(cause error) error {
	var b strings.Builder
	blocked := 0
	for _, p := range append([]*proc{w.outside}, w.procs...) {
		if !p.blocked {
			continue
		}
		if blocked++; blocked <= maxNamed {
			b.WriteString("\n\t" + p.what())
		}
	}
	if blocked > maxNamed {
		fmt.Fprintf(&b, "\n\tand %d more", blocked-maxNamed)
	}
	return fmt.Errorf("%w, after %s (seed %d):%s", cause, elapsed(w.now), w.opts.Seed, b.String())
}

var _ optional.Parking = (*Station)(nil)
