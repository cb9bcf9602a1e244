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

// TestSnapshotFresh: a snapshot is not older than 64 calls of a process that makes many, or 256
// that use a neighbour's heap, nor than the last call of one that has made none for 20 ms
// before, nor than the end of a long wait; and after somebody has asked for one the next call
// that polls makes it.
func TestSnapshotFresh(t *testing.T) {
	eachLayer(t, func(t *testing.T, layer string) {
		p := newProgram(2, sim.Options{}, splitc.Config{Layer: layer})
		p.start(func(w *splitc.World) error {
			a, err := splitc.AllSpreadMalloc[int64](bg, w, 2, 1)
			if err == nil {
				err = w.Barrier(bg)
			}
			if err != nil {
				return err
			}
			if w.MyProc() == 1 {
				if err := p.Sleep(2 * time.Second); err != nil {
					return err
				}
				if err := splitc.Store(bg, w, a.On(0), 5); err != nil {
					return err
				}
				return w.Barrier(bg)
			}
			if err := fresh(p, w, a); err != nil {
				return err
			}
			return w.Barrier(bg)
		})
		check(t, p.run())
	})
}

func fresh(p *program, w *splitc.World, a splitc.Array[int64]) error {
	const many, few = 1000, 10
	late := uint64(64)
	if w.Layer() == "shm" {
		late = 256
	}
	if err := w.StoreSync(bg, 8); err != nil {
		return err
	}
	if s := w.Snapshot(); s.Received != 8 || s.IsWaiting {
		return fmt.Errorf("after a long wait %d bytes have come, and it waits: %t", s.Received, s.IsWaiting)
	}
	if err := w.Poll(); err != nil { // which somebody has asked for
		return err
	}
	for range many {
		if _, err := splitc.Read(bg, w, a.On(1)); err != nil {
			return err
		}
	}
	if s := w.Snapshot(); s.Stats.Reads.Ops <= many-late {
		return fmt.Errorf("%d of %d reads are counted", s.Stats.Reads.Ops, many)
	}
	for i := range 2 {
		if _, err := splitc.Read(bg, w, a.On(1)); err != nil {
			return err
		}
		if err := w.Poll(); err != nil {
			return err
		}
		if s := w.Snapshot(); s.Stats.Reads.Ops != many+uint64(i)+1 {
			return fmt.Errorf("%d of %d reads are counted, when somebody had asked", s.Stats.Reads.Ops, many+i+1)
		}
	}
	if err := w.Poll(); err != nil {
		return err
	}
	for range few {
		if err := p.Sleep(25 * time.Millisecond); err != nil {
			return err
		}
		if _, err := splitc.FetchAdd(bg, w, a.On(1), 1); err != nil {
			return err
		}
	}
	if s := w.Snapshot(); s.Stats.Atomics != few || s.Outstanding != 0 {
		return fmt.Errorf("%d of %d slow calls are counted, and %d operations are outstanding", s.Stats.Atomics, few, s.Outstanding)
	}
	return nil
}

// TestSnapshotStores: a process that only stores shows itself, too, before it waits for
// anything.
func TestSnapshotStores(t *testing.T) {
	const stores, late = 1000, 256
	eachLayer(t, func(t *testing.T, layer string) {
		p := newProgram(2, sim.Options{}, splitc.Config{Layer: layer})
		p.start(func(w *splitc.World) error {
			a, err := splitc.AllSpreadMalloc[int64](bg, w, 2, 1)
			if err != nil {
				return err
			}
			if w.MyProc() == 1 {
				return w.StoreSync(bg, 8*stores)
			}
			for range stores {
				if err := splitc.Store(bg, w, a.On(1), 5); err != nil {
					return err
				}
				if err := p.Sleep(100 * time.Microsecond); err != nil {
					return err
				}
			}
			if s := w.Snapshot(); s.Stats.Stores.Ops < stores-late {
				return fmt.Errorf("%d of %d stores are counted", s.Stats.Stores.Ops, stores)
			}
			return nil
		})
		check(t, p.run())
	})
}

// TestSnapshotStrided: the blocks of strided transfers count as bulk transfers of their kind do.
func TestSnapshotStrided(t *testing.T) {
	check(t, runProgram(2, sim.Options{}, splitc.Config{Layer: "am"}, func(w *splitc.World) error {
		a, err := splitc.AllSpreadMalloc[int64](bg, w, 2, 12)
		if err != nil {
			return err
		}
		p, mem := a.On(1-w.MyProc()), make([]int64, 12)
		s := splitc.Stride{Blocks: 3, Len: 2, Local: 2, Remote: 4}
		var want splitc.Stats
		for _, c := range []struct {
			name string
			kind *splitc.Count
			call func() error
		}{
			{"strided read", &want.Reads, func() error { return splitc.StridedRead(bg, w, mem, p, s) }},
			{"strided write", &want.Writes, func() error { return splitc.StridedWrite(bg, w, p, mem, s) }},
			{"strided get", &want.Gets, func() error { return splitc.StridedGet(bg, w, mem, p, s) }},
			{"strided put", &want.Puts, func() error { return splitc.StridedPut(bg, w, p, mem, s) }},
			{"strided store", &want.Stores, func() error { return splitc.StridedStore(bg, w, p, mem, s) }},
		} {
			*c.kind = splitc.Count{Ops: 3, Bytes: 48}
			if err := c.call(); err != nil {
				return err
			}
			if err := w.Sync(bg); err != nil {
				return err
			}
			w.Snapshot()
			if err := w.Poll(); err != nil {
				return err
			}
			got := w.Snapshot().Stats
			if got.Reads != want.Reads || got.Writes != want.Writes || got.Gets != want.Gets || got.Puts != want.Puts || got.Stores != want.Stores {
				return fmt.Errorf("after a %s the counts are %+v, want %+v", c.name, got, want)
			}
		}
		return w.Barrier(bg)
	}))
}
