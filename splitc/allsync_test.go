package splitc_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/splitc"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// TestAllStoreSync: when all stores have come, the processes meet once to learn of it; and
// what comes late, by stores on their way when all are in the call, is waited for.
func TestAllStoreSync(t *testing.T) {
	eachLayer(t, func(t *testing.T, layer string) {
		for _, procs := range []int{1, 2, 5} {
			p := newProgram(procs, sim.Options{}, splitc.Config{Layer: layer})
			p.start(func(w *splitc.World) error { return allStoreSync(p, w) })
			check(t, p.run())
		}
	})
}

func allStoreSync(p *program, w *splitc.World) error {
	me, procs := w.MyProc(), w.Procs()
	a, err := splitc.AllSpreadMalloc[int64](bg, w, procs, procs)
	if err != nil {
		return err
	}
	for round := range 6 {
		for proc := range procs {
			if err := splitc.Store(bg, w, a.On(proc).Add(me), int64(round*procs+me)); err != nil {
				return err
			}
		}
		rest := round%2 == 0
		if rest { // for as long as everything takes to come
			for range 100 {
				if err := w.Poll(); err != nil {
					return err
				}
				if err := p.Sleep(10 * time.Millisecond); err != nil {
					return err
				}
			}
		}
		before, err := collectives(w)
		if err != nil {
			return err
		}
		if err := w.AllStoreSync(bg); err != nil {
			return err
		}
		after, err := collectives(w)
		if err != nil {
			return err
		}
		if met := after - before; procs > 1 && (met < 1 || met > 2 || rest && met != 1) {
			return fmt.Errorf("round %d: process %d meets the others %d times", round, me, met)
		}
		for i, v := range a.Local(w) {
			if v != int64(round*procs+i) {
				return fmt.Errorf("round %d: process %d has %d of process %d", round, me, v, i)
			}
		}
		if err := w.Barrier(bg); err != nil { // before anybody stores again
			return err
		}
	}
	return nil
}

// collectives returns in how many a process has been.
func collectives(w *splitc.World) (uint64, error) {
	for range 64 { // as often as it takes until a snapshot is made
		if err := w.Poll(); err != nil {
			return 0, err
		}
	}
	return w.Snapshot().Stats.Collectives, nil
}
