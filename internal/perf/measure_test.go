package perf

import (
	"reflect"
	"testing"
)

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

// measured returns measurements whose samples have these cache-line times.
func measured(lines ...[]float64) []*measurement {
	var all []*measurement
	for _, ls := range lines {
		m := &measurement{}
		for _, x := range ls {
			m.samples = append(m.samples, sample{line: x})
		}
		all = append(all, m)
	}
	return all
}

func TestLineAround(t *testing.T) {
	for _, tt := range []struct{ before, after, want float64 }{
		{55, 57, 56},
		{80, 56, 68},
		{55, 210, -1},
		{210, 55, -1},
		{0, 0, 0}, // a machine of one core
		{0, 55, -1},
	} {
		if got := lineAround(tt.before, tt.after); got != tt.want {
			t.Errorf("lineAround(%g, %g) = %g, want %g", tt.before, tt.after, got, tt.want)
		}
	}
}

func TestStates(t *testing.T) {
	for _, tt := range []struct {
		name string
		all  []*measurement
		want []state
	}{
		{"none", measured(), []state{}},
		{"one state, some noise", measured([]float64{60, 55}, []float64{70, 58}), []state{{55, 70}}},
		{"mostly near", measured([]float64{55, 210}, []float64{56, 57}), []state{{55, 57}, {210, 210}}},
		{"mostly far", measured([]float64{55, 210}, []float64{220, 230}), []state{{210, 230}, {55, 55}}},
		{"one core", measured([]float64{0, 0}), []state{{0, 0}}},
	} {
		if got := states(tt.all); !reflect.DeepEqual(got, tt.want) && len(got)+len(tt.want) > 0 {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestCommonStateSelects(t *testing.T) {
	all := measured([]float64{55, 210, 56}, []float64{57, 220})
	common := commonState(all)
	if a, b := len(common.of(all[0])), len(common.of(all[1])); a != 2 || b != 1 {
		t.Errorf("%d and %d samples in the common state, want 2 and 1", a, b)
	}
	if none := commonState(nil); len(none.of(all[0])) != 3 {
		t.Error("without samples every cache-line time is common")
	}
}
