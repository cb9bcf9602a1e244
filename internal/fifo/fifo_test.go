package fifo_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/bobnet-go/bobnet/internal/fifo"
	"github.com/bobnet-go/bobnet/internal/seedtest"
)

var seeds = seedtest.Flags("internal/fifo", 4).Each

// TestQueue compares the ring with a slice.
func TestQueue(t *testing.T) {
	seeds(t, 4, func(seed uint64) error {
		rng := rand.New(rand.NewPCG(seed, 3))
		var q fifo.Queue[int]
		var want []int
		for i := range 10_000 {
			switch dice := rng.IntN(1000); {
			case dice == 0:
				q.Clear()
				want = nil
			case dice < 10:
				odd := func(x *int) bool { return *x%2 == 1 }
				q.Keep(odd)
				want = slices.DeleteFunc(want, func(x int) bool { return !odd(&x) })
			case dice < 510+i/50 || len(want) == 0:
				q.Push(i)
				want = append(want, i)
			default:
				if got := q.Pop(); got != want[0] {
					return fmt.Errorf("step %d: popped %d, want %d", i, got, want[0])
				}
				want = want[1:]
			}
			if q.Len() != len(want) {
				return fmt.Errorf("step %d: %d elements, want %d", i, q.Len(), len(want))
			}
			if n := len(want); n > 0 {
				if at := rng.IntN(n); *q.At(at) != want[at] || *q.At(0) != want[0] || *q.At(n - 1) != want[n-1] {
					return fmt.Errorf("step %d: element %d of %d is %d, want %d", i, at, n, *q.At(at), want[at])
				}
			}
		}
		return nil
	})
}

// TestGrow: a queue that grows when its first entry is anywhere in the ring keeps its
// order.
func TestGrow(t *testing.T) {
	for taken := range 9 {
		var q fifo.Queue[int]
		next, want := 0, 0
		push := func(n int) {
			for range n {
				q.Push(next)
				next++
			}
		}
		pop := func(n int) {
			for range n {
				if v := q.Pop(); v != want {
					t.Fatalf("after %d were taken: got %d, want %d", taken, v, want)
				}
				want++
			}
		}
		push(8)
		pop(taken)
		push(25) // grows twice
		pop(next - want)
		if q.Len() != 0 {
			t.Fatalf("after %d were taken: %d are left", taken, q.Len())
		}
	}
}

// TestNothingIsHeld: what was taken or dropped is not kept from the collector, and a
// queue that has grown allocates nothing.
func TestNothingIsHeld(t *testing.T) {
	var q fifo.Queue[*int]
	for i := range 8 {
		q.Push(&i)
	}
	slots := make([]**int, 8)
	for i := range slots {
		slots[i] = q.At(i)
	}
	q.Pop()
	q.Keep(func(x **int) bool { return **x%2 == 1 })
	for q.Len() > 0 {
		q.Pop()
	}
	for i, slot := range slots {
		if *slot != nil {
			t.Errorf("place %d holds %d", i, **slot)
		}
	}
	x := new(int)
	if n := testing.AllocsPerRun(100, func() { q.Push(x); q.Push(x); q.Pop(); q.Pop() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
