package splitc_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/splitc"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
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

// node is what a program may have in its heap: global pointers, too.
type node struct {
	Value float64
	Next  splitc.Global[node]
	Small [3]int16
}

// Registered variables, one of them of an odd size.
var (
	odd   = splitc.Static[[3]byte]("test.odd")
	count = splitc.Static[int64]("test.count")
	root  = splitc.Static[splitc.Global[node]]("test.root")
)

// TestGlobal: pointers to all processors, their parts and arithmetic, and a list of
// structs that goes through the heaps of all processes by pointers that lie in them.
func TestGlobal(t *testing.T) {
	check(t, runProgram(3, sim.Options{}, splitc.Config{}, func(w *splitc.World) error {
		me, procs := w.MyProc(), w.Procs()
		a, err := splitc.AllSpreadMalloc[node](bg, w, procs, 4)
		if err != nil {
			return err
		}
		p := a.On(1).Add(3)
		lp, err := splitc.ToLocal(w, p)
		if err != nil || lp != &a.Local(w)[3] {
			return fmt.Errorf("tolocal gives another address: %w", err)
		}
		q, err := splitc.ToGlobal(w, 1, lp)
		if err != nil || q != p || q.Proc() != 1 || q.IsNull() || q.Sub(a.On(1)) != 3 || a.On(1).Sub(q) != -3 || p.Add(-3) != a.On(1) {
			return fmt.Errorf("toglobal gives %v, want %v: %w", q, p, err)
		}
		for i := range a.Local(w) { // element i leads to element i of the next process, the last one to i+1
			next := a.On((me + 1) % procs).Add(i)
			if me == procs-1 {
				if next = next.Add(1); i == 3 {
					next = splitc.Global[node]{}
				}
			}
			a.Local(w)[i] = node{Value: float64(10*i + me), Next: next, Small: [3]int16{1, 2, int16(i)}}
		}
		if me == 0 {
			*root.Local(w) = a.On(0)
		}
		if err := w.Barrier(bg); err != nil {
			return err
		}
		return walk(w, procs)
	}))
}

// walk goes along the list from its root.
func walk(w *splitc.World, procs int) error {
	at, err := splitc.Read(bg, w, root.On(w, 0))
	if err != nil {
		return err
	}
	var got []float64
	for !at.IsNull() {
		n, err := splitc.Read(bg, w, at)
		if err != nil {
			return err
		}
		if n.Small[1] != 2 {
			return fmt.Errorf("a node is damaged: %+v", n)
		}
		got, at = append(got, n.Value), n.Next
	}
	var want []float64
	for i := range 4 {
		for p := range procs {
			want = append(want, float64(10*i+p))
		}
	}
	if !slices.Equal(got, want) {
		return fmt.Errorf("the list has %v, want %v", got, want)
	}
	return w.Barrier(bg)
}

// TestStatic: registered variables have equal addresses everywhere, do not overlap, and
// begin as zero.
func TestStatic(t *testing.T) {
	check(t, runProgram(2, sim.Options{}, splitc.Config{}, func(w *splitc.World) error {
		if *count.Local(w) != 0 || *odd.Local(w) != [3]byte{} {
			return errors.New("registered variables are not zero")
		}
		if err := w.Barrier(bg); err != nil {
			return err
		}
		other := 1 - w.MyProc()
		if err := splitc.Write(bg, w, odd.On(w, other), [3]byte{1, 2, 3}); err != nil {
			return err
		}
		if _, err := splitc.FetchAdd(bg, w, count.On(w, 0), 5); err != nil {
			return err
		}
		if err := w.Barrier(bg); err != nil {
			return err
		}
		if n, err := splitc.Read(bg, w, count.On(w, 0)); err != nil || n != 10 || *odd.Local(w) != [3]byte{1, 2, 3} {
			return fmt.Errorf("the variables are %d and %v: %w", n, *odd.Local(w), err)
		}
		return w.Barrier(bg)
	}))
}

// TestSpread: a spread pointer n blocks on is the pointer to block n, whatever way it
// came there; loops go over one's own blocks and no other.
func TestSpread(t *testing.T) {
	for _, procs := range []int{1, 2, 5} {
		check(t, runProgram(procs, sim.Options{}, splitc.Config{}, func(w *splitc.World) error {
			const n, m = 23, 3
			a, err := splitc.AllSpreadMalloc[int32](bg, w, n, m)
			if err != nil {
				return err
			}
			for i := range n {
				for j := range n {
					s := a.Spread().Add(i)
					if to := s.Add(j - i); to.Global() != a.At(j, 0) || to.Sub(s) != j-i || to != a.Spread().Add(j) {
						return fmt.Errorf("from block %d to %d: %v, want %v", i, j, to.Global(), a.At(j, 0))
					}
				}
			}
			for i := range a.Mine(w) {
				if p := a.At(i, 2); p.Proc() != w.MyProc() {
					return fmt.Errorf("block %d is on %d", i, p.Proc())
				} else if lp, err := splitc.ToLocal(w, p); err != nil || lp != &a.Local(w)[i/procs*m+2] {
					return fmt.Errorf("block %d lies elsewhere: %w", i, err)
				}
			}
			sum, blocks := 0, 0
			for row, column := range a.Mine2D(w, 4) {
				sum += row*4 + column
				blocks++
			}
			if blocks*m != len(a.Local(w)) {
				return fmt.Errorf("%d blocks, and %d elements", blocks, len(a.Local(w)))
			}
			all, err := splitc.ReduceToAll(bg, w, sum, splitc.Add[int]())
			if want := n * (n - 1) / 2; err == nil && all != want {
				return fmt.Errorf("the loops add up to %d, want %d", all, want)
			}
			return err
		}))
	}
}

// TestReuse: what is freed is given out again, as zeros, at equal addresses everywhere.
func TestReuse(t *testing.T) {
	check(t, runProgram(2, sim.Options{}, splitc.Config{}, func(w *splitc.World) error {
		first, err := splitc.AllSpreadMalloc[int64](bg, w, 2, 100)
		if err != nil {
			return err
		}
		behind, err := splitc.AllSpreadMalloc[int64](bg, w, 2, 100)
		if err != nil {
			return err
		}
		for i := range first.Local(w) {
			first.Local(w)[i] = -1
		}
		if err := splitc.AllSpreadFree(bg, w, first); err != nil {
			return err
		}
		again, err := splitc.AllSpreadMalloc[byte](bg, w, 2, 700)
		if err != nil || again.On(0).Offset() != first.On(0).Offset() || slices.Max(again.Local(w)) != 0 {
			return fmt.Errorf("the memory is not given out again, or not zero: %w", err)
		}
		if longer, err := splitc.AllSpreadMalloc[byte](bg, w, 2, 900); err != nil || longer.On(1).Offset() < behind.On(1).Offset() {
			return fmt.Errorf("900 bytes at %#x: %w", longer.On(1).Offset(), err)
		}
		return w.Barrier(bg)
	}))
}

// TestMember: a process that has joined its job gives Split-C its membership, which
// outlives the program.
func TestMember(t *testing.T) {
	p := newProgram(2, sim.Options{}, splitc.Config{})
	for rank := range 2 {
		p.host(fmt.Sprint("rank ", rank), func(nic *vipl.NIC) error {
			m, err := job.Open(bg, &job.Config{Job: "member", Rank: rank, Size: 2, NIC: nic}, job.Program{Name: "Test", Version: 1})
			if err != nil {
				return err
			}
			if _, err := splitc.Start(bg, &splitc.Config{Member: m, Config: job.Config{Size: 2}}); !errors.Is(err, splitc.ErrArgument) {
				return fmt.Errorf("a member and a size: %w", err)
			}
			for range 2 { // one program after the other
				w, err := splitc.Start(bg, &splitc.Config{Member: m, HeapSize: splitc.MinHeapSize})
				if err == nil {
					err = errors.Join(primitives(w), w.Exit(bg))
				}
				if err != nil {
					return err
				}
			}
			return m.Leave(bg)
		})
	}
	check(t, p.run())
}

// TestConfig: what is wrong with a configuration is said, and the environment is read.
func TestConfig(t *testing.T) {
	for name, c := range map[string]splitc.Config{
		"layer":   {Config: job.Config{Job: "x", Size: 1}, Layer: "carrier pigeon"},
		"heap":    {Config: job.Config{Job: "x", Size: 1}, HeapSize: 5},
		"waiting": {Config: job.Config{Job: "x", Size: 1}, WaitTimeout: -1},
	} {
		if _, err := splitc.Start(bg, &c); !errors.Is(err, splitc.ErrArgument) {
			t.Errorf("%s: %v", name, err)
		}
	}
	t.Setenv(splitc.EnvHeap, "300k")
	t.Setenv(splitc.EnvLayer, "am")
	w, err := splitc.Start(bg, &splitc.Config{Config: job.Config{Job: "x", Size: 1}})
	check(t, err)
	if s := w.Snapshot(); s.HeapSize != 300<<10 || s.Layer != "am" {
		t.Errorf("started with %+v", s)
	}
	check(t, w.Exit(bg))
	t.Setenv(splitc.EnvHeap, "a lot")
	if _, err := splitc.Start(bg, &splitc.Config{Config: job.Config{Job: "x", Size: 1}}); !errors.Is(err, splitc.ErrArgument) {
		t.Errorf("a lot: %v", err)
	}
	t.Setenv(vipl.EnvTimeout, "soon")
	if _, err := splitc.Start(bg, &splitc.Config{}); !errors.Is(err, splitc.ErrArgument) || !strings.HasPrefix(fmt.Sprint(err), "splitc: start: read BOBNET_TIMEOUT: invalid") {
		t.Errorf("timeout: %v", err)
	}
}

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

// TestBothRead: two processes that read from each other over VIs send a request and a reply in
// one frame, once they have met. Where one computes instead of reading on, it answers all the
// same when it polls.
func TestBothRead(t *testing.T) {
	const reads = 500
	for _, layer := range []string{"reliable", "unreliable"} {
		t.Run(layer, func(t *testing.T) {
			p := newProgram(2, sim.Options{}, splitc.Config{Layer: layer})
			p.start(func(w *splitc.World) error {
				a, err := splitc.AllSpreadMalloc[int32](bg, w, 2, 1)
				if err != nil {
					return err
				}
				a.Local(w)[0] = int32(w.MyProc() + 1)
				if err := w.Barrier(bg); err != nil {
					return err
				}
				peer, before := 1-w.MyProc(), w.NIC().Snapshot().Link.TxFrames
				for i := range reads {
					if v, err := splitc.Read(bg, w, a.On(peer)); err != nil || v != int32(peer+1) {
						return fmt.Errorf("read %d: %d, %w", i, v, err)
					}
					if w.MyProc() == 0 && i > 400 && i%10 == 0 {
						p.Sleep(time.Millisecond)
					}
				}
				if n := w.NIC().Snapshot().Link.TxFrames - before; n > reads*3/2 {
					return fmt.Errorf("process %d sent %d frames for %d reads of each", w.MyProc(), n, reads)
				}
				return w.Barrier(bg)
			})
			check(t, p.run())
		})
	}
}
