package splitc_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/splitc"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// TestInterruptedSaysWhat: the error of a call that a context, or Config.WaitTimeout, has ended
// says what was waited for, of which process.
func TestInterruptedSaysWhat(t *testing.T) {
	for _, layer := range []string{"am", "reliable"} {
		t.Run(layer, func(t *testing.T) {
			p := newProgram(2, sim.Options{}, splitc.Config{Layer: layer, WaitTimeout: 5 * time.Second})
			p.start(func(w *splitc.World) error {
				a, err := splitc.AllSpreadMalloc[int64](bg, w, 2, 1)
				if err != nil || w.MyProc() == 1 {
					return errors.Join(err, p.Sleep(5*time.Minute)) // it serves nobody
				}
				ended := func(want string, call func(ctx context.Context) error) {
					ctx, cancel := w.NIC().WithTimeout(bg, time.Second)
					defer cancel()
					if err := call(ctx); !errors.Is(err, context.DeadlineExceeded) || !strings.HasPrefix(fmt.Sprint(err), want) {
						t.Errorf("%v, want %s...", err, want)
					}
				}
				ended("splitc: store_sync, for 8 bytes, of which 0 have come: ", func(ctx context.Context) error { return w.StoreSync(ctx, 8) })
				if err := w.StoreSync(bg, 8); !errors.Is(err, splitc.ErrWaited) ||
					!strings.HasPrefix(err.Error(), "splitc: store_sync, for 8 bytes, of which 0 have come: waited too long: ") {
					t.Error(err)
				}
				ended("splitc: read, for process 1: ", func(ctx context.Context) error { _, err := splitc.Read(ctx, w, a.On(1)); return err })
				ended("splitc: atomic, for process 1: ", func(ctx context.Context) error { _, err := splitc.FetchAdd(ctx, w, a.On(1), 1); return err })
				for range 100 {
					ctx, cancel := w.NIC().WithTimeout(bg, time.Millisecond)
					_, err = splitc.FetchAdd(ctx, w, a.On(1), 1)
					cancel()
				}
				if want := "splitc: wait for room at process 1: "; !strings.HasPrefix(fmt.Sprint(err), want) {
					t.Errorf("%v, want %s...", err, want)
				}
				ended("splitc: barrier, for process 1: ", w.Barrier)
				return errKilled
			})
			p.run()
		})
	}
}
