package sparse_test

import (
	"math/rand/v2"
	"testing"

	"github.com/bobnet-go/bobnet/internal/sparse"
)

// TestTable compares tables of several sizes with slices.
func TestTable(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, size := range []int{0, 1, 31, 32, 33, 100} {
		table, want := sparse.New[int](size), make([]*int, size)
		if table.Len() != size {
			t.Fatalf("%d entries, want %d", table.Len(), size)
		}
		for range 3 * size {
			i := rng.IntN(size)
			p := new(int)
			if rng.IntN(3) == 0 {
				p = nil
			}
			table.Set(i, p)
			want[i] = p
			at := -1
			for k, p := range table.All() {
				if k <= at || want[k] != p || p == nil {
					t.Fatalf("entry %d after %d is %p, want %p", k, at, p, want[k])
				}
				for at++; at < k; at++ {
					if want[at] != nil {
						t.Fatalf("entry %d is missing", at)
					}
				}
			}
			for k := range want {
				if table.At(k) != want[k] {
					t.Fatalf("entry %d of %d is %p, want %p", k, size, table.At(k), want[k])
				}
			}
		}
		for range table.All() { // ends early
			break
		}
	}
}
