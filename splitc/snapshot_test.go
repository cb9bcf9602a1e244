package splitc_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/splitc"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// TestSnapshot: while a rank waits, a snapshot that another goroutine takes says what for,
// and how much of it is there; afterwards that it computes.
func TestSnapshot(t *testing.T) {
	eachLayer(t, func(t *testing.T, layer string) {
		p := newProgram(2, sim.Options{}, splitc.Config{Layer: layer})
		worlds := make([]*splitc.World, 2)
		wants := func(w *splitc.World, what ...string) error {
			var text strings.Builder
			w.Snapshot().WriteTo(&text)
			for _, want := range what {
				if !strings.Contains(text.String(), want) {
					return fmt.Errorf("no %q in\n%s", want, text.String())
				}
			}
			return nil
		}
		p.start(func(w *splitc.World) error {
			worlds[w.MyProc()] = w
			a, err := splitc.AllSpreadMalloc[int64](bg, w, 2, 4)
			if err != nil {
				return err
			}
			if w.MyProc() == 0 {
				if err := w.StoreSync(bg, 32); err != nil {
					return err
				}
				if err := w.Barrier(bg); err != nil {
					return err
				}
				return wants(w, "computes", "layer "+layer)
			}
			if err := splitc.Store(bg, w, a.On(0), 5); err != nil {
				return err
			}
			for range 1000 {
				if err := w.Poll(); err != nil {
					return err
				}
				if err := p.Sleep(time.Millisecond); err != nil {
					return err
				}
			}
			if err := wants(worlds[0], "process 0 of 2, layer "+layer, "in store_sync, for 32 bytes, of which 8 have come"); err != nil {
				return err
			}
			for i := range 3 {
				if err := splitc.Store(bg, w, a.On(0).Add(i+1), 5); err != nil {
					return err
				}
			}
			return w.Barrier(bg)
		})
		check(t, p.run())
	})
}
