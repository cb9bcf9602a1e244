package splitc_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/splitc"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// stalledOps is more than there are credits for operations of any kind.
const stalledOps = 2000

// stalls are calls that wait for a credit of process 0 while that makes no call.
var stalls = []struct {
	name   string
	layers string
	call   func(w *splitc.World, a splitc.Array[int64]) error
}{
	{"store", "am reliable unreliable rdma", func(w *splitc.World, a splitc.Array[int64]) error {
		for range stalledOps {
			if err := splitc.Store(bg, w, a.On(0), 1); err != nil {
				return err
			}
		}
		return nil
	}},
	{"put", "am reliable unreliable", func(w *splitc.World, a splitc.Array[int64]) error {
		for range stalledOps {
			if err := splitc.Put(bg, w, a.On(0), 1); err != nil {
				return err
			}
		}
		return w.Sync(bg)
	}},
	{"get", "am reliable unreliable", func(w *splitc.World, a splitc.Array[int64]) error {
		var got [stalledOps]int64
		for i := range got {
			if err := splitc.Get(bg, w, &got[i], a.On(0)); err != nil {
				return err
			}
		}
		return w.Sync(bg)
	}},
	{"procedure", "am reliable unreliable rdma shm", func(w *splitc.World, a splitc.Array[int64]) error {
		if err := abandon(w, a, 64); err != nil {
			return err
		}
		_, err := splitc.FetchAdd(bg, w, a.On(0), 1)
		return err
	}},
	{"barrier", "shm", func(w *splitc.World, a splitc.Array[int64]) error { return abandon(w, a, 8) }},
}

// abandon calls a procedure again and again, and waits for none of its results, nor for a
// credit.
func abandon(w *splitc.World, a splitc.Array[int64], calls int) error {
	for range calls {
		ctx, cancel := w.NIC().WithTimeout(bg, time.Millisecond)
		_, err := splitc.FetchAdd(ctx, w, a.On(0), 1)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("a call that nobody answers: %w", err)
		}
	}
	return nil
}

// TestStalled: while a call waits for a credit of a process that computes, a snapshot says so
// and names that process, and the time that was spent waiting for credits grows. Afterwards it
// says neither.
func TestStalled(t *testing.T) {
	need.Simulated(t)
	for _, s := range stalls {
		for _, layer := range strings.Fields(s.layers) {
			t.Run(s.name+"/"+layer, func(t *testing.T) { stalled(t, layer, s.call) })
		}
	}
}

func stalled(t *testing.T, layer string, call func(w *splitc.World, a splitc.Array[int64]) error) {
	p := newProgram(2, sim.Options{}, splitc.Config{Layer: layer})
	worlds := make([]*splitc.World, 2)
	var before time.Duration // spent waiting for credits until the last look
	look := func() error {
		s := worlds[1].Snapshot()
		if w := s.Waiting; !s.IsWaiting || w.What != splitc.ForCredit || !w.Named || w.Proc != 0 || s.Waited < time.Second {
			return fmt.Errorf("waiting %t for %v: %+v", s.IsWaiting, s.Waited, s.Waiting)
		}
		if grown := s.Below.CreditTime - before; grown < 900*time.Millisecond || s.Below.CreditWaits == 0 {
			return fmt.Errorf("%d looks for a credit in vain, and %v more than a second before", s.Below.CreditWaits, grown)
		}
		before = s.Below.CreditTime
		return nil
	}
	p.start(func(w *splitc.World) error {
		worlds[w.MyProc()] = w
		a, err := splitc.AllSpreadMalloc[int64](bg, w, 2, 1)
		if err == nil {
			err = w.Barrier(bg)
		}
		if err != nil {
			return err
		}
		if w.MyProc() == 1 {
			if err := call(w, a); err != nil {
				return err
			}
			if err := w.Barrier(bg); err != nil {
				return err
			}
			if s := w.Snapshot(); s.IsWaiting || s.Below.CreditTime < 4*time.Second || s.Below.CreditTime > 6*time.Second {
				return fmt.Errorf("afterwards it waits: %t; %v were spent for credits", s.IsWaiting, s.Below.CreditTime)
			}
			return nil
		}
		for step := range 5500 { // of a millisecond: it computes
			w.NIC().Poll() // as its service does
			if step >= 3000 && step%1000 == 0 {
				if err := look(); err != nil {
					return err
				}
			}
			if err := p.Sleep(time.Millisecond); err != nil {
				return err
			}
		}
		return w.Barrier(bg)
	})
	check(t, p.run())
}

// TestShortStalls: over active messages waits for credits that are short, because the others
// answer, count by their time, too.
func TestShortStalls(t *testing.T) {
	check(t, runProgram(2, sim.Options{}, splitc.Config{Layer: "am"}, func(w *splitc.World) error {
		a, err := splitc.AllSpreadMalloc[int64](bg, w, 2, 1)
		if err != nil {
			return err
		}
		if w.MyProc() == 1 {
			return w.StoreSync(bg, 8*stalledOps)
		}
		for range stalledOps {
			if err := splitc.Store(bg, w, a.On(1), 1); err != nil {
				return err
			}
		}
		if err := newSnapshot(w); err != nil {
			return err
		}
		if s := w.Snapshot().Below; s.CreditWaits == 0 || s.CreditTime <= 0 || s.CreditTime > time.Second {
			return fmt.Errorf("%d looks for a credit in vain have taken %v", s.CreditWaits, s.CreditTime)
		}
		return nil
	}))
}

// newSnapshot has a process show itself as it is.
func newSnapshot(w *splitc.World) error {
	for range 64 { // as often as it takes until a snapshot is made
		if err := w.Poll(); err != nil {
			return err
		}
	}
	return nil
}
