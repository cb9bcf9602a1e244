package splitc_test

import (
	"testing"

	"github.com/bobnet-go/bobnet/splitc"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// BenchmarkNeighbour is what primitives of an int64 cost that go to a process of the same
// host, over the layer that shares memory.
func BenchmarkNeighbour(b *testing.B) {
	for _, c := range []struct {
		name string
		do   func(w *world, p splitc.Global[int64]) error
	}{
		{"Read", func(w *world, p splitc.Global[int64]) error { _, err := splitc.Read(bg, w, p); return err }},
		{"Write", func(w *world, p splitc.Global[int64]) error { return splitc.Write(bg, w, p, 7) }},
		{"Store", func(w *world, p splitc.Global[int64]) error { return splitc.Store(bg, w, p, 7) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			check(b, runProgram(2, sim.Options{}, splitc.Config{Layer: "shm"}, func(w *world) error {
				a, err := splitc.AllSpreadMalloc[int64](bg, w, 2, 1)
				if err != nil || w.MyProc() != 0 {
					return err
				}
				b.ResetTimer()
				for range b.N {
					if err := c.do(w, a.On(1)); err != nil {
						return err
					}
				}
				b.StopTimer()
				return nil
			}))
		})
	}
}
