package splitc_test

import (
	"fmt"
	"testing"

	"github.com/bobnet-go/bobnet/splitc"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// TestPrimitives: each rank reads, writes, gets, puts and stores at all ranks, itself
// included.
func TestPrimitives(t *testing.T) {
	eachLayer(t, func(t *testing.T, layer string) {
		for _, size := range []int{1, 2, 5} {
			check(t, runProgram(size, sim.Options{}, splitc.Config{Layer: layer}, primitives))
		}
	})
}

func primitives(w *splitc.World) error {
	me, procs := w.MyProc(), w.Procs()
	a, err := splitc.AllSpreadMalloc[int64](bg, w, procs, 5*procs)
	if err != nil {
		return err
	}
	mine := a.Local(w)
	for i := range mine {
		mine[i] = int64(1000*me + i)
	}
	if err := w.Barrier(bg); err != nil {
		return err
	}
	got := make([]int64, procs)
	for proc := range procs {
		p := a.On(proc).Add(me)
		x, err := splitc.Read(bg, w, p)
		if err != nil || x != int64(1000*proc+me) {
			return fmt.Errorf("rank %d read %d from %d: %w", me, x, proc, err)
		}
		if err := splitc.Write(bg, w, p.Add(procs), -x); err != nil {
			return err
		}
		if err := splitc.Get(bg, w, &got[proc], p.Add(procs)); err != nil {
			return err
		}
		if err := splitc.Put(bg, w, p.Add(2*procs), x+1); err != nil {
			return err
		}
		if err := splitc.Store(bg, w, p.Add(3*procs), x+2); err != nil {
			return err
		}
	}
	if err := w.Sync(bg); err != nil {
		return err
	}
	if err := w.StoreSync(bg, 8*procs); err != nil {
		return err
	}
	if err := w.Barrier(bg); err != nil {
		return err
	}
	for i := range procs {
		x := int64(1000*me + i)
		if mine[procs+i] != -x || mine[2*procs+i] != x+1 || mine[3*procs+i] != x+2 || got[i] != -int64(1000*i+me) {
			return fmt.Errorf("rank %d has %d, got %d", me, mine, got)
		}
	}
	return nil
}
