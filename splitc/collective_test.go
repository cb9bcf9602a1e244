package splitc_test

import (
	"fmt"
	"testing"

	"github.com/bobnet-go/bobnet/splitc"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// TestReduceHeap: reductions of what lies in the spread heap, which a layer may send from
// there, have the right result though each process changes its part at once, on wires that
// lose, double and reorder frames.
func TestReduceHeap(t *testing.T) {
	eachLayer(t, func(t *testing.T, layer string) {
		seeds(t, 5, func(seed uint64) error {
			return runProgram(5, sim.Options{Seed: seed, Loss: 0.1, Dup: 0.1, Reorder: 0.1}, splitc.Config{Layer: layer}, reduceHeap)
		})
	})
}

func reduceHeap(w *splitc.World) error {
	const rounds, n = 20, 700 // several messages
	a, err := splitc.AllSpreadMalloc[uint64](bg, w, w.Procs(), n)
	if err != nil {
		return err
	}
	mine := a.Local(w)
	for round := range rounds {
		for i := range mine {
			mine[i] = uint64(round*(w.MyProc()+1) + i)
		}
		if err := splitc.ReduceSliceToAll(bg, w, mine, splitc.Add[uint64]()); err != nil {
			return err
		}
		for i, v := range mine {
			if want := uint64(round*w.Procs()*(w.Procs()+1)/2 + i*w.Procs()); v != want {
				return fmt.Errorf("rank %d, round %d: element %d is %d, want %d", w.MyProc(), round, i, v, want)
			}
		}
	}
	return nil
}
