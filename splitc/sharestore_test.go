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
