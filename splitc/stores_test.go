package splitc_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/splitc"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// requests returns how many requests a process's layer has sent.
func requests(w *splitc.World) (uint64, error) {
	for range 64 { // as often as it takes until a snapshot is made
		if err := w.Poll(); err != nil {
			return 0, err
		}
	}
	return w.Snapshot().Below.Requests, nil
}

// TestStoresShare: over layers 3 and 4 stores that come close to each other share messages,
// and all of them arrive, those that have waited for others too.
func TestStoresShare(t *testing.T) {
	const n, share = 1001, 8
	for _, layer := range []string{"reliable", "unreliable"} {
		t.Run(layer, func(t *testing.T) {
			check(t, runProgram(2, sim.Options{}, splitc.Config{Layer: layer}, func(w *splitc.World) error {
				a, err := splitc.AllSpreadMalloc[int64](bg, w, 2, n)
				if err != nil {
					return err
				}
				if w.MyProc() == 1 {
					if err := w.StoreSync(bg, 8*n); err != nil {
						return err
					}
					for i, v := range a.Local(w) {
						if v != int64(i) {
							return fmt.Errorf("element %d is %d", i, v)
						}
					}
					return nil
				}
				before, err := requests(w)
				if err != nil {
					return err
				}
				for i := range n {
					if err := splitc.Store(bg, w, a.On(1).Add(i), int64(i)); err != nil {
						return err
					}
				}
				after, err := requests(w)
				if sent := after - before; err == nil && sent > n/share+n/50 {
					t.Errorf("%d stores are %d messages, want about %d", n, sent, n/share)
				}
				return err
			}))
		})
	}
}

// TestStoreAlone: a process that computes between its stores holds none of them back.
func TestStoreAlone(t *testing.T) {
	const stores = 2 // of which package vipl holds none back: no acknowledgement is looked at meanwhile
	for _, layer := range []string{"reliable", "unreliable"} {
		t.Run(layer, func(t *testing.T) { storeAlone(t, layer, stores) })
	}
}

func storeAlone(t *testing.T, layer string, stores int) {
	p := newProgram(2, sim.Options{}, splitc.Config{Layer: layer})
	ready, over := false, false
	p.start(func(w *splitc.World) error {
		a, err := splitc.AllSpreadMalloc[int64](bg, w, 2, stores)
		if err != nil {
			return err
		}
		if err := w.Barrier(bg); err != nil {
			return err
		}
		if w.MyProc() == 1 {
			ready = true
			err := w.StoreSync(bg, 8*stores)
			if over {
				t.Error("a store has waited for the next call of the process that made it")
			}
			return err
		}
		for i := range stores {
			if err := splitc.Store(bg, w, a.On(1).Add(i), int64(i)); err != nil {
				return err
			}
			if err := p.Sleep(time.Second); err != nil {
				return err
			}
		}
		over = true
		return nil
	})
	check(t, p.run())
	if !ready {
		t.Error("the other process has not waited")
	}
}

// TestLastStore: a process that answers a store with a store, and then calls nothing more,
// does not keep the other one waiting, however soon it answers.
func TestLastStore(t *testing.T) {
	for _, layer := range []string{"reliable", "unreliable"} {
		t.Run(layer, func(t *testing.T) { lastStore(t, layer) })
	}
}

func lastStore(t *testing.T, layer string) {
	const rounds = 5
	p := newProgram(2, sim.Options{Delay: time.Microsecond}, splitc.Config{Layer: layer})
	over := false
	p.start(func(w *splitc.World) error {
		a, err := splitc.AllSpreadMalloc[int64](bg, w, 2, 1)
		if err != nil {
			return err
		}
		for i := range rounds {
			if w.MyProc() == 1 {
				if err := w.StoreSync(bg, 8); err != nil {
					return err
				}
			}
			if err := splitc.Store(bg, w, a.On(1-w.MyProc()), int64(i)); err != nil {
				return err
			}
			if w.MyProc() == 0 {
				if err := w.StoreSync(bg, 8); err != nil {
					return err
				}
			}
		}
		if w.MyProc() == 0 {
			if over {
				t.Error("the last store has waited for the next call of the process that made it")
			}
			return nil
		}
		err = p.Sleep(time.Second)
		over = true
		return err
	})
	check(t, p.run())
}

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
