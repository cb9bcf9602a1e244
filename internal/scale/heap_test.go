package scale

import (
	"testing"

	"github.com/bobnet-go/bobnet/internal/need"
)

// TestHeap: after Init and a barrier, the heap of a rank grows by at most 64 bytes for each further rank.
func TestHeap(t *testing.T) {
	need.Simulated(t)
	const few, many = 64, 1024
	heaps := map[int]int{}
	for _, ranks := range []int{few, many} {
		c, err := measure(t.Context(), ranks, collectives[:1])
		if err != nil {
			t.Fatal(err)
		}
		heaps[ranks] = c.Heap
	}
	grown := heaps[many] - heaps[few]
	t.Logf("a rank of %d: %d bytes, of %d: %d; %.1f bytes for each further rank", few, heaps[few], many, heaps[many], float64(grown)/(many-few))
	if grown > 64*(many-few) {
		t.Errorf("the heap of a rank grows by %d bytes from %d to %d ranks, want at most 64 for each further rank", grown, few, many)
	}
}
