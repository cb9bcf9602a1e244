package splitc_test

import (
	"testing"

	"github.com/bobnet-go/bobnet/splitc"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// TestBothStore: two processes store to each other, many times the credits, wait for it, and
// leave at once: what one has stored may be on its way when it says that it leaves.
func TestBothStore(t *testing.T) {
	eachLayer(t, func(t *testing.T, layer string) {
		for _, n := range []int{10, 100, 1000} {
			check(t, runProgram(2, sim.Options{}, splitc.Config{Layer: layer}, func(w *splitc.World) error {
				a, err := splitc.AllSpreadMalloc[int32](bg, w, 2, n)
				if err != nil {
					return err
				}
				m, err := splitc.AllSpreadMalloc[int64](bg, w, 2, 1)
				if err != nil {
					return err
				}
				peer := 1 - w.MyProc()
				for round := range 5 {
					for i := range n {
						if err := splitc.Store(bg, w, a.On(peer).Add(i), int32(round)); err != nil {
							return err
						}
					}
					if err := w.Sync(bg); err != nil {
						return err
					}
					if err := splitc.Store(bg, w, m.On(peer), 1); err != nil {
						return err
					}
					if err := w.StoreSync(bg, 4*n+8); err != nil {
						return err
					}
				}
				return nil
			}))
		}
	})
}
