package main

import (
	"flag"
	"math/rand/v2"
	"slices"
	"testing"
)

var testSeed = flag.Uint64("sort.seed", 1, "seed of the random tests")

// inputs are shapes that have upset sample sorts.
func inputs(rng *rand.Rand, n int) map[string][]int64 {
	random, equal, rising, falling, few := make([]int64, n), make([]int64, n), make([]int64, n), make([]int64, n), make([]int64, n)
	for i := range n {
		random[i] = int64(rng.Uint64())
		equal[i] = 7
		rising[i] = int64(i)
		falling[i] = int64(-i)
		few[i] = int64(rng.IntN(3))
	}
	return map[string][]int64{"random": random, "equal": equal, "rising": rising, "falling": falling, "few": few}
}

// sortApart does what the ranks do, in one process.
func sortApart(data []int64, ranks int) [][]int64 {
	parts := make([]part, ranks)
	var samples []key
	for r := range parts {
		s := share(len(data), ranks, r)
		parts[r] = part{slices.Clone(data[s.first : s.first+s.count]), int64(s.first)}
		slices.Sort(parts[r].data)
		samples = append(samples, parts[r].samples(ranks)...)
	}
	keys := splitters(samples, ranks)
	received, runs := make([][]int64, ranks), make([][]int, ranks)
	for _, p := range parts {
		from := 0
		for r, n := range p.counts(keys, ranks) {
			received[r] = append(received[r], p.data[from:from+n]...)
			runs[r] = append(runs[r], n)
			from += n
		}
	}
	for r := range received {
		received[r] = merge(received[r], runs[r])
	}
	return received
}

func TestSortApart(t *testing.T) {
	t.Logf("seed %d", *testSeed)
	rng := rand.New(rand.NewPCG(*testSeed, 0))
	for _, n := range []int{0, 1, 2, 5, 16, 100, 1000, 10007} {
		for name, data := range inputs(rng, n) {
			want := slices.Clone(data)
			slices.Sort(want)
			for _, ranks := range []int{1, 2, 3, 4, 7, 16} {
				parts := sortApart(data, ranks)
				got := slices.Concat(parts...)
				if !slices.Equal(got, want) {
					t.Errorf("%d %s integers on %d ranks are not sorted", n, name, ranks)
				}
				if checksum(got) != checksum(data) {
					t.Errorf("%d %s integers on %d ranks: checksum changed", n, name, ranks)
				}
				for r, p := range parts {
					if limit := 2*n/ranks + 2*ranks; n > ranks*ranks && len(p) > limit {
						t.Errorf("%d %s integers: rank %d of %d got %d, more than %d", n, name, r, ranks, len(p), limit)
					}
				}
			}
		}
	}
}

func TestChecksumSees(t *testing.T) {
	base := checksum([]int64{1, 2, 3, 3})
	for _, other := range [][]int64{{1, 2, 3}, {1, 2, 2, 3}, {1, 2, 3, 4}, {2, 2, 2, 3}, {}} {
		if checksum(other) == base {
			t.Errorf("%v has the checksum of 1, 2, 3, 3", other)
		}
	}
	if checksum([]int64{3, 1, 3, 2}) != base {
		t.Error("the checksum depends on the order")
	}
}
