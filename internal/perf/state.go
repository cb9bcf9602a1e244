package perf

import (
	"math"
	"slices"
)

// stateRatio is how much cache-line times of one state may differ. Near and
// far are a factor of three or four apart, noise is a tenth.
const stateRatio = 1.5

// lineAround returns the cache-line time of a sample from those before and
// after it, or -1 when the state changed in between.
func lineAround(before, after float64) float64 {
	lo, hi := min(before, after), max(before, after)
	if hi > lo*stateRatio {
		return -1
	}
	return (lo + hi) / 2
}

// state is a range of cache-line times: the machine's cores are near, or far.
type state struct{ lo, hi float64 }

// of returns the samples of m that were taken in s.
func (s state) of(m *measurement) []sample {
	var in []sample
	for _, x := range m.samples {
		if s.lo <= x.line && x.line <= s.hi {
			in = append(in, x)
		}
	}
	return in
}

// states splits the cache-line times of all samples where two neighbours in
// size lie further apart than stateRatio, and returns the ranges, the most
// populated first.
func states(all []*measurement) []state {
	var lines []float64
	for _, m := range all {
		for _, s := range m.samples {
			lines = append(lines, s.line)
		}
	}
	slices.Sort(lines)
	type group struct {
		state
		n int
	}
	var groups []group
	for i, x := range lines {
		if i == 0 || x > lines[i-1]*stateRatio {
			groups = append(groups, group{state: state{x, x}})
		}
		g := &groups[len(groups)-1]
		g.hi = x
		g.n++
	}
	slices.SortStableFunc(groups, func(a, b group) int { return b.n - a.n })
	found := make([]state, len(groups))
	for i, g := range groups {
		found[i] = g.state
	}
	return found
}

// commonState returns the state that most samples were taken in.
func commonState(all []*measurement) state {
	if found := states(all); len(found) > 0 {
		return found[0]
	}
	return state{0, math.Inf(1)}
}
