package splitc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/splitc/internal/layer"
	"github.com/bobnet-go/bobnet/vipl"
)

// World is one process of a Split-C program. One goroutine at a time may use it; any goroutine may
// call Snapshot.
type World struct {
	cfg    Config
	log    *slog.Logger
	me     int
	procs  int
	nic    *vipl.NIC
	own    bool // close nic at the end
	member *job.Member
	joined bool // leave member at the end

	generation int // number of programs that this rank has started before as the same member

	layer  layer.Layer
	gather layer.Gatherer // the layer, if it implements Gatherer
	count  *layer.Counters
	heap   []byte
	direct [][]byte // heaps that this process may access directly, by processor; others are nil
	watch  *layer.Watch

	spans  spans
	layout layout
	fit    typeKey // the last type that was checked
	stop   error   // why no call is served any more, or nil

	stored   uint64   // bytes that this rank has stored into its own heap
	consumed uint64   // bytes stored into this heap that have been waited for
	sent     []uint64 // bytes that this rank has stored, by processor
	owing    []uint64 // memory of AllStoreSync

	small   [layer.MaxCopied / 8]uint64  // a value that is passed to a layer
	landing *[layer.MaxCopied / 8]uint64 // memory for the value of a read
	long    longValues

	tree    tree
	atomics atomics
	stats   Stats
	turns   uint // calls that have polled, or used a neighbour's heap instead

	asked atomic.Bool // Snapshot has requested a new one
	mu    sync.Mutex
	seen  Snapshot // the last one that publish has stored
}

// Procs returns the number of processes (PROCS).
func (w *World) Procs() int { return w.procs }

// MyProc returns this process's number, 0 to Procs()-1 (MYPROC).
func (w *World) MyProc() int { return w.me }

// Layer returns the name of the communication layer.
func (w *World) Layer() string { return w.cfg.Layer }

// NIC returns the NIC that the layer uses, or nil in a program of one process without a NIC.
func (w *World) NIC() *vipl.NIC { return w.nic }

// Seconds returns the time in seconds for measuring differences (get_seconds). It is the NIC's
// clock, which is virtual in the simulator.
func (w *World) Seconds() float64 {
	if w.nic == nil {
		return time.Since(processStart).Seconds()
	}
	return float64(w.nic.Now()) / 1e9
}

var processStart = time.Now()

// Poll serves requests of other processes. Layers whose operations need the target process
// serve them only in calls, so a process that computes for a long time delays the others
// unless it polls. Poll does not block. It returns an error if the program has failed.
func (w *World) Poll() error {
	if w.procs == 1 || w.stop != nil {
		return w.ready("poll")
	}
	return w.poll()
}

// lookEach is the number of polling calls after which a process checks for failures and makes a new
// snapshot. nearEach is the number of uses of a neighbour's heap after which it polls and does the
// same. It is small enough for processes that wait for this one, and large enough that each use
// costs little more than the count.
const (
	lookEach = 64
	nearEach = 4 * lookEach
)

// poll is Poll within a call.
func (w *World) poll() error {
	w.turns++
	if w.turns%lookEach == 0 || w.asked.Load() {
		if w.procs > 1 {
			if err := w.member.Err(); err != nil {
				return w.heard(err)
			}
		}
		w.publish()
	}
	return w.heard(w.layer.Poll())
}

// near counts an operation on a neighbour's heap, which sends no request. It polls from time to
// time, so that a process that does nothing else still serves the others and detects failures.
func (w *World) near() error {
	if (w.turns+1)%nearEach != 0 {
		w.turns++
		return nil
	}
	return w.poll()
}

// OnOne runs f in one process (on_one). It does not communicate.
func (w *World) OnOne(proc int, f func() error) error {
	if err := w.checkRoot("on_one", proc); err != nil || proc != w.me {
		return err
	}
	return f()
}

// heard returns err, or a failure that other ranks have reported meanwhile. A failure is final:
// each later call returns it. The end of the caller's context, and a wait that took too long, are
// not failures.
func (w *World) heard(err error) error {
	if m := w.tree.told; m != nil && w.stop == nil {
		w.stop = m
		w.tellMismatch(m)
		w.publish()
	}
	switch {
	case w.stop != nil:
		return w.stop
	case err == nil, passing(err):
		return err
	}
	return w.fail(err)
}

// passing reports whether an error ends only one call, not the program.
func passing(err error) bool {
	if errors.Is(err, ErrRankFailed) { // its cause may be a timeout
		return false
	}
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrWaited)
}

// fail makes err the end of the program for this rank. A cause that the other ranks have reported
// takes precedence.
func (w *World) fail(err error) error {
	if w.stop == nil {
		if why := w.member.Err(); why != nil && !errors.Is(err, ErrMismatch) {
			err = why
			if strings.Contains(why.Error(), ErrMismatch.Error()) {
				err = w.differs(why)
			}
		}
		w.stop = err
		w.publish()
	}
	return w.stop
}

// tellFor is how long a rank waits for the MismatchError behind another rank's failure.
const tellFor = time.Second

// differs is called if this rank first learns that another one fails because of a mismatch. It
// returns the MismatchError of the other ranks, or that failure if none arrives.
func (w *World) differs(why error) error {
	for end := w.nic.Now() + int64(tellFor); w.tree.told == nil && w.nic.Now() < end; {
		if w.layer == nil || w.layer.Wait(w.watch.Slice()) != nil {
			break
		}
	}
	if m := w.tree.told; m != nil {
		w.tellMismatch(m)
		return m
	}
	return fmt.Errorf("%w: %w", ErrMismatch, why)
}

// wait serves the other ranks until done returns true. It fails if ctx ends, if it takes longer
// than Config.WaitTimeout, and if a rank has failed.
func (w *World) wait(ctx context.Context, what Waiting, done func() bool) error {
	// Poll even if there is nothing to wait for: it sends pending messages.
	if err := w.poll(); err != nil || done() {
		return err
	}
	w.watch.Begin()
	shown := false
	for {
		err := w.layer.Wait(w.watch.Slice())
		if err = w.heard(err); err != nil || done() {
			w.ends(shown)
			return err
		}
		if w.watch.Expired() {
			if !shown {
				what.Since = w.nic.Now() - int64(layer.Slice)
			}
			w.shows(what)
			shown = true
		}
		if err = w.heard(w.watch.Check(ctx)); err != nil {
			w.ends(shown)
			if passing(err) {
				err = fmt.Errorf("splitc: %s: %w", what.text(w.received()-w.consumed), err)
			}
			return err
		}
	}
}
