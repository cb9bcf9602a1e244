package conn

// PathTest distinguishes a path that does not carry frames of the full MTU from one that loses many
// frames of any length. It evaluates probes in pairs, one of full size and one short. If a path
// loses both alike, either is answered with the same probability. So each answer to a short probe,
// while no full-size one was answered, is a toss of a coin: only on a path that does not carry
// full-size frames does it always fall on the same side.
type PathTest struct {
	Pairs  int  // pairs of probes sent
	Short  int  // short probes answered
	Passed bool // a full-size probe was answered
}

// Thresholds of the verdict: the probability that a path which loses both alike shows this result.
const (
	NarrowCertain = 1e-7 // to end an attempt to connect, or a connection
	NarrowLikely  = 1e-5 // to report it when the attempt times out
)

// Narrow reports whether full-size frames do not pass although short ones do: whether the observed
// result has a probability of at most odds if both pass alike. That is the probability that short
// probes, drawn at random from 2*pairs probes, are all among the short ones.
func (t *PathTest) Narrow(odds float64) bool {
	if t.Passed {
		return false
	}
	chance, short := 1.0, min(t.Short, t.Pairs) // an answer may be duplicated on the way
	for i := range short {
		chance *= float64(t.Pairs-i) / float64(2*t.Pairs-i)
	}
	return chance <= odds
}

// Answered records the answer to a probe.
func (t *PathTest) Answered(full bool) {
	if full {
		t.Passed = true
		return
	}
	t.Short++
}
