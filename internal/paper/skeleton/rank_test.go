package skeleton

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/transport/sim"
)

// wire is a link whose requests take different times, and arrive on their own.
type wire struct {
	w     *sim.World
	wait  *sim.Waiter
	sent  int
	ranks []*Rank
	wires []*wire
}

func (l *wire) Request(to int, kind Kind, value int32, size int) error {
	l.sent++
	at := l.w.Now() + int64(l.sent%7)*int64(time.Millisecond)
	me := l.ranks[l.me()]
	l.w.At(at, func() {
		answer := l.ranks[to].Arrived(kind, value, size)
		if kind == Add {
			me.Answered(answer)
		}
		l.wait.Wake()
		l.wires[to].wait.Wake()
	})
	return l.w.Sleep(time.Microsecond)
}

func (l *wire) me() int {
	for i, other := range l.wires {
		if other == l {
			return i
		}
	}
	panic("skeleton: a wire of no rank")
}

func (l *wire) Await() error { return l.wait.Wait(l.w.Now() + int64(time.Second)) }
func (l *wire) Poll() error  { return nil }
func (l *wire) Segment() int { return 100 }

func (l *wire) Compute(operations int) error { return l.w.Sleep(time.Duration(operations)) }

// program runs a program on a number of ranks.
func program(t *testing.T, ranks int, run func(r *Rank) error) []*Rank {
	t.Helper()
	w := sim.New(sim.Options{Seed: 1, Limit: time.Hour})
	wires, all, errs := make([]*wire, ranks), make([]*Rank, ranks), make([]error, ranks)
	for i := range ranks {
		wires[i] = &wire{w: w, wait: w.Waiter(), ranks: all, wires: wires}
		all[i] = New(wires[i], i, ranks)
	}
	for i, r := range all {
		w.Go(fmt.Sprint("rank ", i), func() { errs[i] = run(r) })
	}
	if err := errors.Join(w.Run(), errors.Join(errs...)); err != nil {
		t.Fatalf("%d ranks: %v", ranks, err)
	}
	return all
}

// TestSums checks that each of many sums is the sum of the values of all ranks, although messages
// overtake each other.
func TestSums(t *testing.T) {
	for _, ranks := range []int{1, 2, 3, 6, 16} {
		program(t, ranks, func(r *Rank) error {
			for round := range 20 {
				got, err := r.sum(int32(round * r.me))
				if want := int32(round * ranks * (ranks - 1) / 2); err != nil || got != want {
					return fmt.Errorf("sum %d is %d, want %d: %w", round, got, want, err)
				}
			}
			return nil
		})
	}
}

// TestAllStoreSync checks that all earlier stores have arrived after it, in whole segments,
// including stores in slow messages.
func TestAllStoreSync(t *testing.T) {
	const ranks, size = 5, 250
	program(t, ranks, func(r *Rank) error {
		for round := 1; round <= 3; round++ {
			for to := range ranks {
				if to != r.me {
					if err := r.store(to, 2, size); err != nil {
						return err
					}
				}
			}
			if err := r.allStoreSync(); err != nil {
				return err
			}
			if want := round * (ranks - 1) * 2 * size; r.taken < want {
				return fmt.Errorf("%d bytes have come in round %d, want %d", r.taken, round, want)
			}
			if err := r.Barrier(); err != nil { // before the stores of the next round
				return err
			}
		}
		if r.Stores != 3*(ranks-1) || r.Bytes != r.Stores*2*size {
			return fmt.Errorf("%d stores of %d bytes are counted", r.Stores, r.Bytes)
		}
		return nil
	})
}

// TestNext checks that the counter gives each number to one rank.
func TestNext(t *testing.T) {
	var taken []int
	program(t, 4, func(r *Rank) error {
		for range 5 {
			i, err := r.next()
			if err != nil {
				return err
			}
			taken = append(taken, i)
		}
		return nil
	})
	seen := map[int]bool{}
	for _, i := range taken {
		if seen[i] || i < 0 || i >= 20 {
			t.Errorf("number %d was given out of %v", i, taken)
		}
		seen[i] = true
	}
}
