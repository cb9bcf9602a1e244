package perf

import "testing"

func TestLearn(t *testing.T) {
	rtt := make([]int64, 100) // three of them disturbed
	for i := range rtt {
		rtt[i] = 3000
	}
	rtt[10], rtt[50], rtt[90] = 2_000_000, 4_000_000, 6_000_000
	h, err := histogram(rtt)
	if err != nil {
		t.Fatal(err)
	}
	m := &measurement{}
	m.learn(123_000, h)
	if m.each != 123_000./maxGrowth {
		t.Errorf("after a disturbed sample a message takes %g ns, want no less than %g", m.each, 123_000./maxGrowth)
	}
	m.learn(4000, h)
	if m.each < 3000 || m.each > 3010 {
		t.Errorf("after a better one it takes %g ns, want the median", m.each)
	}
	m.learn(9000, nil)
	if m.each > 3010 {
		t.Errorf("a slower one made it %g ns", m.each)
	}
}

func TestWanting(t *testing.T) {
	all := measured([]float64{55, 55, 55}, []float64{55, 210, 210}, nil, nil)
	all[3].failed = maxTries
	c := &coordinator{plan: Plan{Rounds: 3}, all: all}
	for _, tt := range []struct {
		round int
		want  []*measurement
		what  string
	}{
		{0, all[:3], "all but the one that keeps failing"},
		{3, all[1:3], "those with too few in the common state"},
		{6, all[2:3], "the one without a sample"},
	} {
		got := c.wanting(tt.round)
		if len(got) != len(tt.want) || got[0] != tt.want[0] {
			t.Errorf("round %d takes %d measurements, want %s", tt.round, len(got), tt.what)
		}
	}
}
