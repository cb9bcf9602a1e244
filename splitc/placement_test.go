package splitc_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/splitc"
	"github.com/bobnet-go/bobnet/splitc/internal/shm"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// placements are the hosts of ranks.
var placements = []struct {
	name string
	host func(rank int) int
}{
	{"each alone", func(rank int) int { return rank }},
	{"pairs", shm.Pairs},
	{"round", func(rank int) int { return rank % 2 }},
	{"round three", func(rank int) int { return rank % 3 }},
	{"one host", func(int) int { return 0 }},
	{"mixed", func(rank int) int { return rank * rank % 5 }},
}

// eachPlacement runs a test for every placement of the ranks of layer shm.
func eachPlacement(t *testing.T, f func(t *testing.T)) {
	defer func() { shm.Simulated = shm.Pairs }()
	for _, at := range placements {
		shm.Simulated = at.host
		t.Run(at.name, f)
	}
}

// TestPlacement: collectives return the same on all placements of ranks on hosts, and the
// sums of floating-point numbers, which depend on how they are grouped, are the same to the
// last bit.
func TestPlacement(t *testing.T) {
	need.Simulated(t)
	sizes := []int{2, 4, 7, 12}
	if !need.Full() {
		sizes = sizes[1:3]
	}
	for _, procs := range sizes {
		want := sums(t, procs, "am")
		eachPlacement(t, func(t *testing.T) {
			if got := sums(t, procs, "shm"); !slices.Equal(got, want) {
				t.Errorf("%d processes: sums are %v, want %v", procs, got, want)
			}
			check(t, runProgram(procs, sim.Options{}, splitc.Config{Layer: "shm"}, placed))
		})
	}
}

// sums returns what processes get that add numbers of very different sizes: each of a slice
// of several messages, and the prefix of each process.
func sums(t *testing.T, procs int, layer string) []float64 {
	const n = 300
	all := make([]float64, n+procs)
	check(t, runProgram(procs, sim.Options{}, splitc.Config{Layer: layer}, func(w *splitc.World) error {
		rng := rand.New(rand.NewPCG(7, uint64(w.MyProc())))
		mine := make([]float64, n)
		for i := range mine {
			mine[i] = rng.ExpFloat64() / float64(1+rng.IntN(1000))
		}
		upTo, err := splitc.Scan(bg, w, mine[0], splitc.Add[float64]())
		if err != nil {
			return err
		}
		if err := splitc.ReduceSliceToAll(bg, w, mine, splitc.Add[float64]()); err != nil {
			return err
		}
		all[n+w.MyProc()] = upTo
		if w.MyProc() == 0 {
			copy(all, mine)
		}
		return nil
	}))
	return all
}

// placed calls collectives of all kinds in turn, and compares what they return.
func placed(w *splitc.World) error {
	me, procs := w.MyProc(), w.Procs()
	last := splitc.OpFunc("last", func(a, b string8) string8 {
		if b != (string8{}) {
			return b
		}
		return a
	})
	for round := range 6 {
		if err := w.Barrier(bg); err != nil {
			return err
		}
		root := round % procs
		if v, err := splitc.Broadcast(bg, w, root, me+100); err != nil || v != root+100 {
			return fmt.Errorf("round %d: a broadcast of process %d gives %d: %w", round, root, v, err)
		}
		if v, err := splitc.ReduceToAll(bg, w, me+round, splitc.Add[int]()); err != nil || v != procs*(procs-1)/2+procs*round {
			return fmt.Errorf("round %d: a sum is %d: %w", round, v, err)
		}
		mine := string8{}
		if me%2 == 0 {
			mine[0] = byte(me + 1)
		}
		if v, err := splitc.Scan(bg, w, mine, last); err != nil || int(v[0]) != me/2*2+1 {
			return fmt.Errorf("round %d: the last even process up to %d is %d: %w", round, me, int(v[0])-1, err)
		}
		if v, err := splitc.ReduceToOne(bg, w, root, mine, last); err != nil || me == root && int(v[0]) != (procs-1)/2*2+1 {
			return fmt.Errorf("round %d: the last even process is %d: %w", round, int(v[0])-1, err)
		}
		got := make([]int, procs)
		if err := splitc.AllGather(bg, w, []int{me * me}, got); err != nil {
			return err
		}
		for i, v := range got {
			if v != i*i {
				return fmt.Errorf("round %d: process %d has %d of process %d", round, me, v, i)
			}
		}
	}
	return nil
}

// string8 is a value of an operation that is not commutative.
type string8 [8]byte

// TestPlacementMismatch: processes that are in different collectives end on all placements,
// also when these go along different trees.
func TestPlacementMismatch(t *testing.T) {
	need.Simulated(t)
	barrier := func(w *splitc.World) error { return w.Barrier(bg) }
	ordered := func(w *splitc.World) error {
		_, err := splitc.ReduceToAll(bg, w, 1.5, splitc.Add[float64]())
		return err
	}
	scan := func(w *splitc.World) error {
		_, err := splitc.Scan(bg, w, 1, splitc.Add[int]())
		return err
	}
	eachPlacement(t, func(t *testing.T) {
		for _, odd := range []int{0, 1, 4} {
			check(t, mismatch("shm", sim.Options{}, odd, "reduce", barrier, ordered))
			check(t, mismatch("shm", sim.Options{}, odd, "barrier", ordered, barrier))
			check(t, mismatch("shm", sim.Options{}, odd, "scan", ordered, scan))
		}
	})
}

// TestPlacementDeath: a process that dies ends a reduction in order.
func TestPlacementDeath(t *testing.T) {
	need.Simulated(t)
	eachPlacement(t, func(t *testing.T) {
		check(t, death("shm", "killed", func(p *program, _ *splitc.World) error {
			p.Kill(p.stations[victim])
			return errKilled
		}, func(w *splitc.World, _ splitc.Array[int64]) error {
			_, err := splitc.ReduceToAll(bg, w, 1.5, splitc.Add[float64]())
			return err
		}))
	})
}

// TestStartAsksRanks: layers ask each rank where its part is, by the address that the job knows,
// and the segment nothing. With a launcher's key-value space nothing is broadcast at all.
func TestStartAsksRanks(t *testing.T) {
	eachLayer(t, func(t *testing.T, layer string) {
		p := newProgram(4, sim.Options{}, splitc.Config{Layer: layer})
		asked := 0
		p.Script(func(_ int64, _, _ *sim.Station, frame []byte) sim.Action {
			var h ethertype.Header
			payload, err := h.Parse(frame)
			if err == nil && h.Kind == ethertype.KindQuery && h.Tag == 0 && !strings.HasPrefix(string(payload), "job/") {
				if asked++; h.Dst == ethertype.Broadcast {
					t.Errorf("all were asked for %q", payload)
				}
			}
			return sim.Action{}
		})
		p.start(func(w *splitc.World) error { return w.Barrier(bg) })
		if check(t, p.run()); asked == 0 && layer != "shm" {
			t.Error("nobody was asked for anything")
		}
	})
}

// The tests that follow are of what processes of one host do without a message, over the
// default layer.

// TestNearServes: a process that does nothing but read or write a neighbour's heap serves the
// others meanwhile: the neighbour sets what it waits for when it has had an answer from it.
func TestNearServes(t *testing.T) {
	for name, look := range map[string]func(w *splitc.World, a splitc.Array[int64]) (over bool, err error){
		"read": func(w *splitc.World, a splitc.Array[int64]) (bool, error) {
			v, err := splitc.Read(bg, w, a.On(1))
			return v != 0, err
		},
		"write": func(w *splitc.World, a splitc.Array[int64]) (bool, error) {
			return a.Local(w)[0] != 0, splitc.Write(bg, w, a.On(1).Add(1), 5)
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProgram(2, sim.Options{Limit: time.Minute}, splitc.Config{})
			p.start(func(w *splitc.World) error {
				a, err := splitc.AllSpreadMalloc[int64](bg, w, 2, 2)
				if err == nil {
					err = w.Barrier(bg)
				}
				if err != nil {
					return err
				}
				if w.MyProc() == 1 {
					if _, err := splitc.FetchAdd(bg, w, a.On(0), 1); err != nil {
						return err
					}
					a.Local(w)[0] = 1
					return w.Barrier(bg)
				}
				for looks := 0; ; looks++ {
					over, err := look(w, a)
					if err != nil {
						return err
					}
					if over {
						return w.Barrier(bg)
					}
					if looks > 1000 {
						return errors.New("it has looked a thousand times, and served nobody")
					}
					if err := p.Sleep(time.Microsecond); err != nil {
						return err
					}
				}
			})
			check(t, p.run())
		})
	}
}

// TestNearCounts: procedures that go to a neighbour by memory count as requests, and their
// results as replies.
func TestNearCounts(t *testing.T) {
	const calls = 10
	p := newProgram(2, sim.Options{}, splitc.Config{})
	over := false
	p.start(func(w *splitc.World) error {
		a, err := splitc.AllSpreadMalloc[int64](bg, w, 2, 1)
		if err == nil {
			err = w.Barrier(bg)
		}
		if err == nil {
			err = newSnapshot(w)
		}
		if err != nil {
			return err
		}
		before := w.Snapshot().Below
		if err := w.Barrier(bg); err != nil {
			return err
		}
		if w.MyProc() == 0 {
			for range calls {
				if _, err := splitc.FetchAdd(bg, w, a.On(1), 1); err != nil {
					return err
				}
			}
			over = true
			if err := newSnapshot(w); err != nil {
				return err
			}
			if sent := w.Snapshot().Below.Requests - before.Requests; sent < calls {
				return fmt.Errorf("%d calls are %d requests", calls, sent)
			}
			return nil
		}
		for !over { // and does not sleep, so that nobody sends messages to wake it
			if err := w.Poll(); err != nil {
				return err
			}
			if err := p.Sleep(time.Microsecond); err != nil {
				return err
			}
		}
		if err := newSnapshot(w); err != nil {
			return err
		}
		if sent := w.Snapshot().Below.Replies - before.Replies; sent < calls {
			return fmt.Errorf("%d calls have %d replies", calls, sent)
		}
		return nil
	})
	check(t, p.run())
}
