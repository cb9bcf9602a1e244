package ethertype

import (
	"math"
	"testing"
)

func TestSeqWraps(t *testing.T) {
	for _, test := range []struct {
		s, t Seq
		sub  int
	}{
		{0, 0, 0},
		{1, 0, 1},
		{0, math.MaxUint32, 1},
		{5, math.MaxUint32 - 4, 10},
		{math.MaxInt32, 0, math.MaxInt32},
		{1<<31 + 7, 8, math.MaxInt32},
		{1 << 31, math.MaxInt32, 1},
	} {
		if got := test.s.Sub(test.t); got != test.sub {
			t.Errorf("%d - %d = %d, want %d", test.s, test.t, got, test.sub)
		}
		if got := test.t.Sub(test.s); got != -test.sub {
			t.Errorf("%d - %d = %d, want %d", test.t, test.s, got, -test.sub)
		}
		if test.t.Less(test.s) != (test.sub > 0) || test.s.Less(test.t) || !test.t.LessEq(test.s) {
			t.Errorf("%d and %d are out of order", test.t, test.s)
		}
		if test.s.LessEq(test.t) != (test.sub == 0) {
			t.Errorf("%d <= %d", test.s, test.t)
		}
	}
}
