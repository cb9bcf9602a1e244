package conn

// PathTest tells a path that does not carry frames as long as the MTU says from one
// that loses many frames of any length. Probes of full size and short ones go in pairs.
// A path that loses both alike answers either with the same chance, whatever it is. So
// each answer to a short probe, while none of full size has come, is one throw of a
// coin: only a path that does not carry the long ones lets it fall on the same side
// forever.
type PathTest struct {
	Pairs  int  // of probes sent
	Short  int  // short ones that were answered
	Passed bool // one of full size was
}

// How sure the verdict is: the chance that a path which loses both alike looks so.
const (
	NarrowCertain = 1e-7 // to end an attempt to connect, or a connection
	NarrowLikely  = 1e-5 // to say so when the time for it is over
)

// Narrow reports whether full-size frames do not pass although short ones do: whether
// the chance of what was seen is at most odds if both pass alike. That is the chance
// that short of 2*pairs probes, drawn by lot, are all among the short ones.
func (t *PathTest) Narrow(odds float64) bool {
	if t.Passed {
		return false
	}
	chance, short := 1.0, min(t.Short, t.Pairs) // an answer may be copied on the way
	for i := range short {
		chance *= float64(t.Pairs-i) / float64(2*t.Pairs-i)
	}
	return chance <= odds
}

// Answered notes the answer to a probe.
func (t *PathTest) Answered(full bool) {
	if full {
		t.Passed = true
		return
	}
	t.Short++
}
