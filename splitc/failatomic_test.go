package splitc_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/splitc"
	"github.com/bobnet-go/bobnet/transport/sim"
)

const noInk = "no more ink"

// givesUp ends the program of the process where it runs, and uses that one's heap afterwards.
var givesUp = splitc.Atomic("test.givesUp", func(w *splitc.World, p splitc.Global[int64]) int64 {
	w.Fail(errors.New(noInk))
	w.Fail(errors.New("a second reason"))
	v, err := splitc.ToLocal(w, p)
	if err != nil {
		panic(err)
	}
	*v += 5
	if err := w.Exit(bg); !errors.Is(err, splitc.ErrInAtomic) {
		panic(err)
	}
	return *v
})

// TestFailInAtomic: a procedure that calls Fail ends its process's program when it returns. The
// heap is there until Exit, all calls return the reason, and all other ranks are told it.
func TestFailInAtomic(t *testing.T) {
	eachLayer(t, func(t *testing.T, layer string) {
		for _, caller := range []int{0, 1} { // another one than the owner, and the owner itself
			p := newProgram(3, sim.Options{}, splitc.Config{Layer: layer})
			through := 0
			p.start(func(w *splitc.World) error {
				a, err := splitc.AllSpreadMalloc[int64](bg, w, 3, 1)
				for through++; err == nil && through < 3; err = p.Sleep(time.Millisecond) { // all have left it
					if err := w.Poll(); err != nil {
						return err
					}
				}
				if err != nil {
					return fmt.Errorf("%w, want an array", err)
				}
				return failInAtomic(w, a, caller)
			})
			err := p.run()
			if err == nil || strings.Contains(err.Error(), "want") {
				t.Errorf("rank %d calls: %v", caller, err)
			}
		}
	})
	w, err := splitc.Start(bg, &splitc.Config{Config: job.Config{Job: "alone", Size: 1}, HeapSize: splitc.MinHeapSize})
	check(t, err)
	a, err := splitc.AllSpreadMalloc[int64](bg, w, 1, 1)
	check(t, err)
	if err := failInAtomic(w, a, 0); err == nil || strings.Contains(err.Error(), "want") {
		t.Errorf("alone: %v", err)
	}
	if err := w.Exit(bg); err == nil || !strings.Contains(err.Error(), noInk) {
		t.Errorf("alone, exit: %v", err)
	}
}

// failInAtomic has rank caller call givesUp at the owner, which is rank 1 if there is one. It
// returns the failure of the program.
func failInAtomic(w *splitc.World, a splitc.Array[int64], caller int) error {
	owner := min(1, w.Procs()-1)
	mine := a.Local(w)
	if w.MyProc() == caller {
		_, err := givesUp.Call(bg, w, owner, a.On(owner))
		if err == nil || !strings.Contains(err.Error(), noInk) || caller != owner && !errors.Is(err, splitc.ErrAtomic) && !errors.Is(err, splitc.ErrRankFailed) {
			return fmt.Errorf("the procedure has ended with %w, want %q", err, noInk)
		}
	}
	err := w.Barrier(bg)
	if err == nil && w.MyProc() != owner { // the owner was in that one already
		err = w.Barrier(bg)
	}
	if err == nil || !strings.Contains(err.Error(), noInk) {
		return fmt.Errorf("the barrier ends with %w, want %q", err, noInk)
	}
	if w.MyProc() != owner {
		if !errors.Is(err, splitc.ErrRankFailed) {
			return fmt.Errorf("rank %d hears %w, want that rank %d has failed", w.MyProc(), err, owner)
		}
		return err
	}
	again := w.Sync(bg)
	if again == nil || again.Error() != err.Error() || errors.Is(again, splitc.ErrClosed) {
		return fmt.Errorf("the next call says %w, want %w", again, err)
	}
	if mine[0] != 5 || a.Local(w)[0] != 5 {
		return fmt.Errorf("the heap has %d, want 5", mine[0])
	}
	if s := w.Snapshot(); !strings.Contains(s.Failure, noInk) {
		return fmt.Errorf("the snapshot says %q, want %q", s.Failure, noInk)
	}
	return err
}
