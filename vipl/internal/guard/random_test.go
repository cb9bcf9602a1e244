package guard

import (
	crand "crypto/rand"
	"testing"
)

// TestRandomSource: in real time all numbers are the system's, whatever the seed, so that none of
// those that are told to anybody tells another. In virtual time a seed repeats them.
func TestRandomSource(t *testing.T) {
	for _, seed := range []uint64{0, 1} {
		var r Random
		if r.Init(seed, false); r.from != crand.Reader {
			t.Errorf("with the seed %d they come from a %T", seed, r.from)
		}
	}
	var a, b, c Random
	a.Init(1, true)
	b.Init(1, true)
	c.Init(2, true)
	if x := a.Uint64(); x != b.Uint64() || x == c.Uint64() {
		t.Error("a seed does not repeat its numbers in virtual time, or another one does")
	}
	if a.Init(0, true); a.from != crand.Reader {
		t.Errorf("without a seed they come from a %T", a.from)
	}
}
