package endpoint

import "testing"

// TestFifo: a queue that grows when its first entry is anywhere in the ring
// keeps its order.
func TestFifo(t *testing.T) {
	for taken := range 9 {
		var q fifo[int]
		next, want := 0, 0
		push := func(n int) {
			for range n {
				q.push(next)
				next++
			}
		}
		pop := func(n int) {
			for range n {
				if v, ok := q.pop(); !ok || v != want {
					t.Fatalf("after %d were taken: got %d, %v, want %d", taken, v, ok, want)
				}
				want++
			}
		}
		push(8)
		pop(taken)
		push(25) // grows twice
		pop(next - want)
		if v, ok := q.pop(); ok {
			t.Fatalf("after %d were taken: got %d from an empty queue", taken, v)
		}
	}
}
