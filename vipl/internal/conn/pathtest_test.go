package conn

import (
	"math/rand/v2"
	"testing"
)

// TestPathTest: a path that never answers a full-size probe is found out soon, one that
// loses all probes alike is not blamed, whatever its loss, and one answer of full size
// settles it.
func TestPathTest(t *testing.T) {
	var sure PathTest
	for !sure.Narrow(NarrowCertain) {
		if sure.Pairs++; sure.Pairs > 20 {
			t.Fatalf("no verdict after %d pairs without loss of short ones", sure.Pairs)
		}
		sure.Answered(false)
	}
	if sure.Answered(true); sure.Narrow(1) {
		t.Error("a probe of full size was answered")
	}
	r := rand.New(rand.NewPCG(1, 2))
	for _, passes := range []float64{0.02, 0.1, 0.3, 0.9} {
		wrong := 0
		for range 100_000 {
			var p PathTest
			for range 60 {
				p.Pairs++
				if r.Float64() < passes {
					p.Answered(true)
				}
				if r.Float64() < passes {
					p.Answered(false)
				}
				if p.Narrow(NarrowCertain) {
					wrong++
				}
			}
		}
		if wrong > 0 {
			t.Errorf("of 100000 paths on which %v of all probes are answered %d were blamed", passes, wrong)
		}
	}
	if p := (PathTest{Pairs: 3, Short: 40}); p.Narrow(NarrowLikely) {
		t.Error("copies of answers count")
	}
}
