package report

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// two returns what two ranks of a run add up to: rank 0 computed for 3 s and waited for
// 1 s, rank 1 computed for 4 s.
func two() *Report {
	phases := []Phase{{"work", false}, {"others", true}}
	var sum, longest []float64
	for rank, spent := range [][]time.Duration{{3 * time.Second, time.Second}, {4 * time.Second, 0}} {
		t := NewTimer(phases...)
		copy(t.spent, spent)
		t.Traffic.Store = Count{int64(1 + rank), 80}
		v := t.Values()
		if sum == nil {
			sum, longest = make([]float64, len(v)), make([]float64, len(v))
		}
		for i := range v {
			sum[i] += v[i]
			longest[i] = max(longest[i], v[i])
		}
	}
	r := New("demo", "8 x 8", "am", 2)
	r.Fill(NewTimer(phases...), sum, longest)
	return r
}

func TestFill(t *testing.T) {
	r := two()
	if r.Seconds != 4 || r.Compute != 3.5 || r.Wait != 0.5 {
		t.Errorf("%v s, computing %v, waiting %v: want 4, 3.5, 0.5", r.Seconds, r.Compute, r.Wait)
	}
	if r.Times[0].Max != 4 || r.Times[1].Mean != 0.5 {
		t.Errorf("phases %+v", r.Times)
	}
	if r.Traffic.Store != (Count{3, 160}) || r.Traffic.Get != (Count{}) {
		t.Errorf("traffic %+v", r.Traffic)
	}
	if r.Against(6 * time.Second); r.SpeedUp != 1.5 {
		t.Errorf("speed-up %v, want 1.5", r.SpeedUp)
	}
}

func TestTimer(t *testing.T) {
	timer := NewTimer(Phase{Name: "a"}, Phase{Name: "b"})
	if timer.Stop(); timer.Elapsed() != 0 {
		t.Error("a timer that was never started counted time")
	}
	timer.Enter(0)
	timer.since = timer.since.Add(-time.Hour)
	timer.Enter(1)
	timer.Stop()
	timer.Stop()
	if a := timer.spent[0]; a < time.Hour || timer.Elapsed() != a+timer.spent[1] {
		t.Errorf("phases %v", timer.spent)
	}
}

func TestTexts(t *testing.T) {
	r := two()
	r.Against(6 * time.Second)
	r.Fact("residual", 1e-12)
	r.Checked = "as serial"
	var text, line strings.Builder
	if err := r.Text(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"demo, 8 x 8: 2 ranks over am took 4s: 3.5s computing, 500ms waiting", "residual 1e-12", "speed-up of 1.50", "checked: as serial", "store         3 operations,          160 bytes"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in:\n%s", want, text.String())
		}
	}
	if err := r.JSON(&line); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(line.String(), "\n"); n != 1 {
		t.Errorf("%d lines of JSON", n)
	}
	var back Report
	if err := json.Unmarshal([]byte(line.String()), &back); err != nil || back.Traffic != r.Traffic || back.SpeedUp != 1.5 {
		t.Errorf("read back as %+v (%v)", back, err)
	}
}

// TestBound: ranks that are bound, each to a processor, are not more than the processors.
func TestBound(t *testing.T) {
	t.Setenv(EnvProcessors, "1000")
	if r := New("app", "", "am", 1000); r.Crowded || r.Processors != 1000 {
		t.Errorf("1000 bound ranks: %+v", r)
	}
	if r := New("app", "", "am", 1001); !r.Crowded {
		t.Error("1001 ranks on 1000 processors are not marked")
	}
}
