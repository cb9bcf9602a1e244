package conn

import (
	"slices"
	"testing"
)

// TestSweep: sweeps ask for a part of a ring each, one behind the other, until all who want to
// have asked once; then all may ask again.
func TestSweep(t *testing.T) {
	for _, test := range []struct {
		ring, connections int
		want              []int // how many ask in each sweep, until one asks for all
	}{
		{64, 10, []int{10}},
		{64, 16, []int{16}},
		{64, 40, []int{16, 16, 8}},
		{8, 9, []int{4, 4, 1}},
		{0, 100, []int{64, 36}},
	} {
		var s sweepBudget
		for round := range 2 {
			var got []int
			asked := map[int]bool{}
			for again := true; again; {
				s.Begin(test.ring)
				n := 0
				for i := range test.connections {
					if port := 100 * (i + 1); !asked[port] && s.Allow(uint16(port)) {
						asked[port] = true
						n++
					}
				}
				got = append(got, n)
				again = s.End() && len(got) < 100
			}
			if len(got) > 1 && got[len(got)-1] == 0 { // the sweep from the beginning
				got = got[:len(got)-1]
			}
			if !slices.Equal(got, test.want) || len(asked) != test.connections {
				t.Errorf("ring of %d, %d connections, round %d: %v ask, want %v", test.ring, test.connections, round, got, test.want)
			}
		}
	}
}
