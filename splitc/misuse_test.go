package splitc_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/splitc"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

type withPointer struct {
	N    int
	Name string
}

// Atomic procedures that do what they must not.
var (
	panics = splitc.Atomic("test.panics", func(*splitc.World, int32) int32 { panic("on purpose") })
	sends  = splitc.Atomic("test.sends", func(w *splitc.World, p splitc.Global[int64]) int64 {
		x, _ := splitc.Read(bg, w, p)
		return x
	})
	nests = splitc.Atomic("test.nests", func(w *splitc.World, proc int32) int64 {
		x, _ := panics.Call(bg, w, int(proc), 1)
		return int64(x)
	})
)

// misuses returns calls that are wrong, and the errors that they end with. a has 8
// elements on each of 2 processes, and freed is not allocated any more.
func misuses(w *splitc.World, a, freed splitc.Array[int64]) []struct {
	name string
	want error
	call func() error
} {
	p := a.On(1 - w.MyProc())
	mine := a.Local(w)
	eight := make([]int64, 8)
	read := func(p splitc.Global[int64]) func() error {
		return func() error { _, err := splitc.Read(bg, w, p); return err }
	}
	stride := func(s splitc.Stride) func() error {
		return func() error { return splitc.StridedPut(bg, w, p, eight, s) }
	}
	return []struct {
		name string
		want error
		call func() error
	}{
		{"processor beyond the last", splitc.ErrProcessor, read(p.On(2))},
		{"negative processor", splitc.ErrProcessor, read(p.On(-1))},
		{"enormous processor", splitc.ErrProcessor, read(p.On(1 << 40))},
		{"null", splitc.ErrNull, read(splitc.Global[int64]{})},
		{"null on a processor", splitc.ErrNull, read(splitc.Global[int64]{}.On(1))},
		{"near null", splitc.ErrOutside, read(splitc.Global[int64]{}.Add(1))},
		{"scratch memory of collectives", splitc.ErrOutside, read(splitc.Global[int64]{}.Add(1000))},
		{"before the heap", splitc.ErrOutside, read(p.Add(-1 << 40))},
		{"behind the array", splitc.ErrOutside, func() error { return splitc.BulkGet(bg, w, eight, p.Add(1)) }},
		{"behind the heap", splitc.ErrOutside, read(p.Add(1 << 30))},
		{"freed", splitc.ErrFreed, read(freed.On(1))},
		{"put to freed", splitc.ErrFreed, func() error { return splitc.Put(bg, w, freed.On(0), 1) }},
		{"store to freed", splitc.ErrFreed, func() error { return splitc.Store(bg, w, freed.On(1), 1) }},
		{"free again", splitc.ErrFreed, func() error { return splitc.AllSpreadFree(bg, w, freed) }},
		{"free null", splitc.ErrNull, func() error { return splitc.AllSpreadFree(bg, w, splitc.Array[int64]{}) }},
		{"unaligned", splitc.ErrUnaligned, read(splitc.Cast[int64](splitc.Cast[byte](p).Add(3)))},
		{"type with pointers", splitc.ErrType, func() error {
			_, err := splitc.Read(bg, w, splitc.Cast[withPointer](p))
			return err
		}},
		{"array of pointers", splitc.ErrType, func() error { _, err := splitc.AllSpreadMalloc[[2]*int](bg, w, 2, 1); return err }},
		{"slice", splitc.ErrType, func() error { _, err := splitc.Broadcast(bg, w, 0, []int{1}); return err }},
		{"type without size", splitc.ErrType, func() error { _, err := splitc.AllSpreadMalloc[struct{}](bg, w, 2, 1); return err }},
		{"negative size", splitc.ErrArgument, func() error { _, err := splitc.AllSpreadMalloc[int](bg, w, 2, -1); return err }},
		{"more than the heap", splitc.ErrMemory, func() error { _, err := splitc.AllSpreadMalloc[int](bg, w, 2, 1<<40); return err }},
		{"negative length", splitc.ErrArgument, func() error { _, err := splitc.ToLocalSlice(w, p, -1); return err }},
		{"length that overflows", splitc.ErrOutside, func() error { _, err := splitc.ToLocalSlice(w, splitc.Cast[[1 << 44]byte](p), 1<<20); return err }},
		{"negative stride", splitc.ErrArgument, stride(splitc.Stride{Blocks: 2, Len: 1, Local: 1, Remote: -2})},
		{"negative blocks", splitc.ErrArgument, stride(splitc.Stride{Blocks: -2, Len: 1, Local: 1, Remote: 2})},
		{"blocks that overlap", splitc.ErrOverlap, stride(splitc.Stride{Blocks: 2, Len: 2, Local: 2, Remote: 1})},
		{"blocks behind the slice", splitc.ErrArgument, stride(splitc.Stride{Blocks: 3, Len: 2, Local: 4, Remote: 2})},
		{"blocks behind the array", splitc.ErrOutside, stride(splitc.Stride{Blocks: 4, Len: 2, Local: 2, Remote: 3})},
		{"stride that overflows", splitc.ErrOutside, stride(splitc.Stride{Blocks: 3, Len: 1, Local: 1, Remote: 1 << 62})},
		{"get onto itself", splitc.ErrOverlap, func() error { return splitc.BulkGet(bg, w, mine[1:4], a.On(w.MyProc()).Add(2)) }},
		{"put onto itself", splitc.ErrOverlap, func() error { return splitc.BulkPut(bg, w, a.On(w.MyProc()), mine[:3]) }},
		{"store onto itself", splitc.ErrOverlap, func() error { return splitc.BulkStore(bg, w, a.On(w.MyProc()), mine[:3]) }},
		{"address outside of the heap", splitc.ErrOutside, func() error { _, err := splitc.ToGlobal(w, 1, &eight[0]); return err }},
		{"negative bytes", splitc.ErrArgument, func() error { return w.StoreSync(bg, -1) }},
		{"root beyond the last", splitc.ErrProcessor, func() error { _, err := splitc.ReduceToOne(bg, w, 2, 1, splitc.Add[int]()); return err }},
		{"zero operation", splitc.ErrArgument, func() error { _, err := splitc.ReduceToAll(bg, w, 1, splitc.Op[int]{}); return err }},
		{"short destination", splitc.ErrArgument, func() error { return splitc.AllGather(bg, w, eight, eight) }},
		{"procedure at no processor", splitc.ErrProcessor, func() error { _, err := panics.Call(bg, w, 7, 1); return err }},
		{"procedure that panics", splitc.ErrAtomic, func() error { _, err := panics.Call(bg, w, 1-w.MyProc(), 1); return err }},
		{"procedure that panics here", splitc.ErrAtomic, func() error { _, err := panics.Call(bg, w, w.MyProc(), 1); return err }},
		{"procedure that sends", splitc.ErrInAtomic, func() error { _, err := sends.Call(bg, w, 1-w.MyProc(), p); return err }},
		{"procedure that calls another", splitc.ErrInAtomic, func() error { _, err := nests.Call(bg, w, 1-w.MyProc(), 0); return err }},
		{"procedure of freed memory", splitc.ErrFreed, func() error { _, err := splitc.FetchAdd(bg, w, freed.On(1), 1); return err }},
	}
}

// TestMisuse: what is wrong is a typed error of the call, changes nothing, and leaves the
// program well.
func TestMisuse(t *testing.T) {
	eachLayer(t, func(t *testing.T, layer string) {
		check(t, runProgram(2, sim.Options{}, splitc.Config{Layer: layer}, misuse))
	})
}

func misuse(w *splitc.World) error {
	a, err := splitc.AllSpreadMalloc[int64](bg, w, 2, 8)
	if err != nil {
		return err
	}
	freed, err := splitc.AllSpreadMalloc[int64](bg, w, 2, 8)
	if err == nil {
		err = splitc.AllSpreadFree(bg, w, freed)
	}
	if err != nil {
		return err
	}
	for _, c := range misuses(w, a, freed) {
		if err := c.call(); !errors.Is(err, c.want) {
			return fmt.Errorf("%s: %w, want %w", c.name, err, c.want)
		}
	}
	if err := w.Sync(bg); err != nil {
		return err
	}
	if s := w.Snapshot(); s.Received != 0 {
		return fmt.Errorf("misuse has stored %d bytes", s.Received)
	}
	if err := w.Barrier(bg); err != nil {
		return err
	}
	for i, v := range a.Local(w) {
		if v != 0 {
			return fmt.Errorf("misuse has made element %d %d", i, v)
		}
	}
	return nil
}

// TestEnded: after Exit each call says that the program has ended.
func TestEnded(t *testing.T) {
	cfg := splitc.Config{Config: job.Config{Job: "ended", Size: 1}, HeapSize: splitc.MinHeapSize}
	w, err := splitc.Start(bg, &cfg)
	check(t, err)
	a, err := splitc.AllSpreadMalloc[int](bg, w, 1, 3)
	check(t, err)
	check(t, w.Exit(bg))
	_, errRead := splitc.Read(bg, w, a.On(0))
	_, errLocal := splitc.ToLocal(w, a.On(0))
	for _, err := range []error{errRead, errLocal, w.Barrier(bg), w.Sync(bg), w.StoreSync(bg, 0), w.Poll(), w.Exit(bg)} {
		if !errors.Is(err, splitc.ErrClosed) {
			t.Errorf("got %v, want that the program has ended", err)
		}
	}
	if a.Local(w) != nil {
		t.Error("the array has memory after Exit")
	}
}

// TestLocalOfNone: an array that a world has not has no memory there: a freed one, also when
// another one lies at its place that is shorter, the zero one, and one of another program.
func TestLocalOfNone(t *testing.T) {
	start := func(name string) *splitc.World {
		w, err := splitc.Start(bg, &splitc.Config{Config: job.Config{Job: name, Size: 1}, HeapSize: splitc.MinHeapSize})
		check(t, err)
		return w
	}
	w, other := start("alone"), start("another")
	first, err := splitc.AllSpreadMalloc[int64](bg, w, 1, 100)
	check(t, err)
	second, err := splitc.AllSpreadMalloc[int64](bg, w, 3, 100)
	check(t, err)
	if n, m := len(first.Local(w)), len(second.Local(w)); n != 100 || m != 300 {
		t.Errorf("the arrays have %d and %d elements", n, m)
	}
	none := func(when string, w *splitc.World, a splitc.Array[int64]) {
		if s := a.Local(w); s != nil {
			t.Errorf("%s, the array has %d elements, want nil", when, len(s))
		}
	}
	none("in a program that has allocated nothing", other, second)
	check(t, splitc.AllSpreadFree(bg, w, first))
	none("when it is freed", w, first)
	short, err := splitc.AllSpreadMalloc[int64](bg, w, 1, 10)
	check(t, err)
	if short.On(0) != first.On(0) || len(short.Local(w)) != 10 {
		t.Errorf("the shorter array is at %+v with %d elements, want it at %+v", short.On(0), len(short.Local(w)), first.On(0))
	}
	none("when it is freed and a shorter one at its place", w, first)
	none("when it is the zero one", w, splitc.Array[int64]{})
	check(t, errors.Join(w.Exit(bg), other.Exit(bg)))
}

// TestFreeStale: an array that was freed is not freed again when another one lies at its place,
// be that longer or shorter; nor is one of another program.
func TestFreeStale(t *testing.T) {
	w, err := splitc.Start(bg, &splitc.Config{Config: job.Config{Job: "alone", Size: 1}, HeapSize: splitc.MinHeapSize})
	check(t, err)
	for _, n := range [][2]int{{100, 300}, {300, 100}, {8, 9}, {0, 9}, {9, 0}} {
		stale, err := splitc.AllSpreadMalloc[int64](bg, w, 1, n[0])
		check(t, err)
		check(t, splitc.AllSpreadFree(bg, w, stale))
		a, err := splitc.AllSpreadMalloc[int64](bg, w, 1, n[1])
		check(t, err)
		if a.On(0) != stale.On(0) {
			t.Fatalf("the array of %d elements is at %+v, want it at %+v", n[1], a.On(0), stale.On(0))
		}
		if err := splitc.AllSpreadFree(bg, w, stale); !errors.Is(err, splitc.ErrFreed) {
			t.Errorf("to free %d elements where there are %d: %v, want %v", n[0], n[1], err, splitc.ErrFreed)
		}
		if s := a.Local(w); len(s) != n[1] {
			t.Errorf("the array has %d elements, want %d", len(s), n[1])
		}
		if err := splitc.AllSpreadFree(bg, w, a); err != nil {
			t.Error(err)
		}
	}
	check(t, w.Exit(bg))
}

// TestExitWaits: Exit waits for a process that computes for longer than Timeout, but not for
// longer than WaitTimeout.
func TestExitWaits(t *testing.T) {
	for late, want := range map[time.Duration]error{8 * time.Second: nil, 30 * time.Second: splitc.ErrWaited} {
		p := newProgram(2, sim.Options{}, splitc.Config{Config: job.Config{Timeout: 4 * time.Second}, WaitTimeout: 16 * time.Second})
		p.start(func(w *splitc.World) error {
			for end := p.Now() + int64(late); w.MyProc() == 1 && p.Now() < end; {
				if err := errors.Join(p.Sleep(10*time.Millisecond), w.Poll()); err != nil {
					return err
				}
			}
			return nil
		})
		err := p.run()
		if (want == nil) != (err == nil) || !errors.Is(err, want) {
			t.Errorf("with a process that comes %v later: %v, want %v", late, err, want)
		}
	}
}

// TestNever: a store_sync for more than will come ends: by its deadline, after
// WaitTimeout, and at once when nobody is left to store.
func TestNever(t *testing.T) {
	eachLayer(t, func(t *testing.T, layer string) {
		cfg := splitc.Config{Layer: layer, WaitTimeout: 3 * time.Second}
		check(t, runProgram(2, sim.Options{}, cfg, func(w *splitc.World) error {
			if w.MyProc() == 1 {
				return nil // it calls Exit
			}
			if err := w.StoreSync(bg, 8); !errors.Is(err, splitc.ErrNever) {
				return fmt.Errorf("when all others have left: %w", err)
			}
			return nil
		}))
		check(t, runProgram(2, sim.Options{}, cfg, func(w *splitc.World) error {
			ctx, cancel := w.NIC().WithTimeout(bg, time.Second)
			defer cancel()
			if err := w.StoreSync(ctx, 8); !errors.Is(err, context.DeadlineExceeded) {
				return fmt.Errorf("with a deadline: %w", err)
			}
			if err := w.StoreSync(bg, 8); !errors.Is(err, splitc.ErrWaited) {
				return fmt.Errorf("without a deadline: %w", err)
			}
			return w.Barrier(bg)
		}))
	})
	w, err := splitc.Start(bg, &splitc.Config{Config: job.Config{Job: "alone", Size: 1}, HeapSize: splitc.MinHeapSize})
	check(t, err)
	if err := w.StoreSync(bg, 1); !errors.Is(err, splitc.ErrNever) {
		t.Errorf("alone: %v", err)
	}
	check(t, w.Exit(bg))
}

// mismatched is a collective that most ranks call, one that an odd rank calls, and what the
// error says of that.
type mismatched struct {
	name string
	most func(w *splitc.World) error
	odd  func(w *splitc.World) error
}

// malloc returns a call that allocates blocks of type T.
func malloc[T any](n, m int) func(w *splitc.World) error {
	return func(w *splitc.World) error {
		_, err := splitc.AllSpreadMalloc[T](bg, w, n, m)
		return err
	}
}

// free returns a call that frees the second of two arrays that have lain at the same place by
// its own handle, or by that of the first.
func free(second bool) func(w *splitc.World) error {
	return func(w *splitc.World) error {
		a, err := splitc.AllSpreadMalloc[int32](bg, w, 6, 4)
		if err == nil {
			err = splitc.AllSpreadFree(bg, w, a)
		}
		if err != nil {
			return err
		}
		b, err := splitc.AllSpreadMalloc[int64](bg, w, 6, 2)
		if err != nil {
			return err
		}
		if second {
			return splitc.AllSpreadFree(bg, w, b)
		}
		return splitc.AllSpreadFree(bg, w, a)
	}
}

// alike are collectives whose messages are of the same lengths, and which differ all the same.
var alike = []mismatched{
	{"all_spread_malloc", malloc[int32](6, 3), malloc[int64](6, 3)},
	{"all_spread_malloc", malloc[int32](6, 4), malloc[int64](6, 2)},
	{"all_spread_malloc", malloc[int64](6, 3), malloc[int64](6, 3+1<<16)},
	{"all_spread_malloc", malloc[int64](5, 6), malloc[int64](6, 6)},
	{"all_spread_free", free(true), free(false)},
	{"scan", func(w *splitc.World) error { _, err := splitc.Scan(bg, w, 1, splitc.Add[int]()); return err },
		func(w *splitc.World) error { _, err := splitc.ExclusiveScan(bg, w, 1, splitc.Add[int]()); return err }},
	{"reduce", func(w *splitc.World) error { _, err := splitc.ReduceToAll(bg, w, 1, splitc.Add[int]()); return err },
		func(w *splitc.World) error { _, err := splitc.ReduceToOne(bg, w, 0, 1, splitc.Add[int]()); return err }},
	{"reduce", func(w *splitc.World) error { _, err := splitc.ReduceToAll(bg, w, 1, splitc.Add[int]()); return err },
		func(w *splitc.World) error { return splitc.ReduceSliceToAll(bg, w, []int{1}, splitc.Add[int]()) }},
	{"broadcast", func(w *splitc.World) error { _, err := splitc.Broadcast(bg, w, 0, 1); return err },
		func(w *splitc.World) error { return splitc.BroadcastSlice(bg, w, 0, []int{1}) }},
	{"gather", func(w *splitc.World) error { return splitc.AllGather(bg, w, []int{1}, make([]int, 6)) },
		func(w *splitc.World) error { return splitc.Gather(bg, w, 0, []int{1}, make([]int, 6)) }},
}

// TestMismatch: when ranks call different collectives, or one with different arguments,
// every rank ends with an error that names two of them and what they have called.
func TestMismatch(t *testing.T) {
	barrier := func(w *splitc.World) error { return w.Barrier(bg) }
	reduce := func(w *splitc.World) error {
		_, err := splitc.ReduceToAll(bg, w, 1, splitc.Add[int]())
		return err
	}
	cases := append([]mismatched{
		{"reduce", barrier, reduce},
		{"all_store_sync", reduce, func(w *splitc.World) error { return w.AllStoreSync(bg) }},
		{"exit", barrier, func(w *splitc.World) error { return w.Exit(bg) }},
		{"reduce", reduce, func(w *splitc.World) error {
			_, err := splitc.ReduceToAll(bg, w, 1, splitc.Max[int]())
			return err
		}},
		{"reduce", reduce, func(w *splitc.World) error {
			_, err := splitc.ReduceToAll(bg, w, int32(1), splitc.Add[int32]())
			return err
		}},
		{"all_spread_malloc", func(w *splitc.World) error {
			_, err := splitc.AllSpreadMalloc[int](bg, w, 6, 3)
			return err
		}, func(w *splitc.World) error {
			_, err := splitc.AllSpreadMalloc[int](bg, w, 6, 4)
			return err
		}},
	}, alike...)
	eachLayer(t, func(t *testing.T, layer string) {
		for i, c := range cases {
			odds := []int{3, 0, 5}
			if !need.Full() {
				odds = odds[:1]
			}
			for _, odd := range odds {
				if err := mismatch(layer, sim.Options{}, odd, c.name, c.most, c.odd); err != nil {
					t.Errorf("case %d, rank %d: %v", i, odd, err)
				}
			}
		}
	})
}

// TestMismatchLost: that is so, too, when messages are lost: where a rank has not heard yet that
// all have started, or hears first that another one has ended.
func TestMismatchLost(t *testing.T) {
	barrier := func(w *splitc.World) error { return w.Barrier(bg) }
	reduce := func(w *splitc.World) error {
		_, err := splitc.ReduceToAll(bg, w, 1, splitc.Add[int]())
		return err
	}
	eachLayer(t, func(t *testing.T, layer string) {
		seeds(t, 40, func(seed uint64) error {
			opts := sim.Options{Seed: seed, Loss: 0.1, Dup: 0.05, Reorder: 0.1}
			return mismatch(layer, opts, int(seed%6), "reduce", barrier, reduce)
		})
	})
}

// mismatch runs a program in which rank odd calls something else than all others.
func mismatch(layer string, opts sim.Options, odd int, name string, most, other func(w *splitc.World) error) error {
	p := newProgram(6, opts, splitc.Config{Layer: layer})
	var told *splitc.MismatchError
	for rank := range p.cfg.Size {
		p.host(fmt.Sprint("rank ", rank), func(nic *vipl.NIC) error {
			cfg := p.cfg
			cfg.NIC, cfg.Rank = nic, rank
			w, err := splitc.Start(bg, &cfg)
			began := p.Now()
			if err == nil {
				call := most
				if rank == odd {
					call = other
				}
				if err = call(w); err == nil {
					err = w.Barrier(bg)
				}
				began = p.Now()
				w.Exit(bg)
			}
			var m *splitc.MismatchError
			if !errors.As(err, &m) || !errors.Is(err, splitc.ErrMismatch) || !tells(m, odd, name) {
				return fmt.Errorf("%T %w, want that rank %d is in %s and another one is not", err, err, odd, name)
			}
			if told == nil {
				told = m
			}
			if *m != *told {
				return fmt.Errorf("%w, and another rank has %w", m, told)
			}
			if took := time.Duration(p.Now() - began); took > 3*time.Second {
				return fmt.Errorf("to exit took %v", took)
			}
			return nil
		})
	}
	return p.run()
}

// tells reports whether an error says that rank odd and another one differ, and which collectives
// they are in: one of them in that of this name.
func tells(m *splitc.MismatchError, odd int, name string) bool {
	other := m.Ranks[0] + m.Ranks[1] - odd
	return (m.Ranks[0] == odd || m.Ranks[1] == odd) && other != odd && other >= 0 && other < 6 &&
		strings.Contains(m.Calls[0]+m.Calls[1], name) && m.Calls[0] != m.Calls[1] && strings.Contains(m.Calls[0], "its collective") && strings.Contains(m.Calls[1], "its collective")
}

// TestStridedOverlap: strided transfers of a process to itself in which a later block overlaps
// are refused before the first one is done, and those whose blocks lie between each other are
// done.
func TestStridedOverlap(t *testing.T) {
	w, err := splitc.Start(bg, &splitc.Config{Config: job.Config{Job: "alone", Size: 1}, HeapSize: splitc.MinHeapSize})
	check(t, err)
	a, err := splitc.AllSpreadMalloc[int64](bg, w, 1, 12)
	check(t, err)
	mine := a.Local(w)
	for _, c := range []struct {
		name string
		at   int // where the blocks of the other side begin
		s    splitc.Stride
		want error
	}{
		{"the last block onto itself", 1, splitc.Stride{Blocks: 2, Len: 1, Local: 3, Remote: 2}, splitc.ErrOverlap},
		{"the first block onto the last", 6, splitc.Stride{Blocks: 3, Len: 2, Local: 3, Remote: 2}, splitc.ErrOverlap},
		{"the first block onto itself", 0, splitc.Stride{Blocks: 3, Len: 2, Local: 2, Remote: 4}, splitc.ErrOverlap},
		{"columns", 1, splitc.Stride{Blocks: 3, Len: 1, Local: 2, Remote: 2}, nil},
		{"one block behind the other", 6, splitc.Stride{Blocks: 3, Len: 2, Local: 2, Remote: 2}, nil},
	} {
		for name, call := range map[string]func(p splitc.Global[int64]) error{
			"get":   func(p splitc.Global[int64]) error { return splitc.StridedGet(bg, w, mine, p, c.s) },
			"put":   func(p splitc.Global[int64]) error { return splitc.StridedPut(bg, w, p, mine, c.s) },
			"store": func(p splitc.Global[int64]) error { return splitc.StridedStore(bg, w, p, mine, c.s) },
		} {
			want := make([]int64, len(mine))
			for i := range mine {
				mine[i], want[i] = int64(i), int64(i)
			}
			for b := 0; c.want == nil && b < c.s.Blocks; b++ {
				from, to := b*c.s.Local, c.at+b*c.s.Remote
				if name == "get" {
					from, to = to, from
				}
				copy(want[to:][:c.s.Len], want[from:][:c.s.Len])
			}
			if err := call(a.On(0).Add(c.at)); !errors.Is(err, c.want) || !slices.Equal(mine, want) {
				t.Errorf("%s, %s: %v, and the array has %d, want %v and %d", name, c.name, err, mine, c.want, want)
			}
		}
	}
	check(t, w.Exit(bg))
}
