package splitc_test

import (
	"fmt"
	"testing"

	"github.com/bobnet-go/bobnet/splitc"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// longValue is one that layers send from where it lies.
type longValue [3000]int64

func longOf(n int) (v longValue) {
	for i := range v {
		v[i] = int64(1000*n + i)
	}
	return v
}

// TestLongValues: long values that are put, stored, written and read while others are under way arrive as
// they were, also if frames are lost.
func TestLongValues(t *testing.T) {
	const each = 5
	eachLayer(t, func(t *testing.T, layer string) {
		check(t, runProgram(2, sim.Options{Seed: 2, Loss: 0.05}, splitc.Config{Layer: layer}, func(w *splitc.World) error {
			a, err := splitc.AllSpreadMalloc[longValue](bg, w, 2, 2*each+2)
			if err != nil {
				return err
			}
			for round := range 3 {
				value := func(i int) longValue { return longOf(100*round + i) }
				there := a.On(1 - w.MyProc())
				for i := range each {
					if err := splitc.Put(bg, w, there.Add(i), value(i)); err != nil {
						return err
					}
					if err := splitc.Store(bg, w, there.Add(each+i), value(each+i)); err != nil {
						return err
					}
				}
				if err := splitc.Write(bg, w, there.Add(2*each), value(2*each)); err != nil {
					return err
				}
				if err := w.AllStoreSync(bg); err != nil {
					return err
				}
				for i := range 2*each + 1 {
					if v, err := splitc.Read(bg, w, there.Add(i)); err != nil || v != value(i) {
						return fmt.Errorf("value %d: %v, begins with %d: %w", i, v == value(i), v[0], err)
					}
				}
				if err := w.Barrier(bg); err != nil {
					return err
				}
			}
			return nil
		}))
	})
}
