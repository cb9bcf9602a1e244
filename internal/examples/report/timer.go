package report

import "time"

// Phase is a part of a run that is timed separately. In a phase that waits, a rank waits for other
// ranks; in all other phases it computes.
type Phase struct {
	Name  string
	Waits bool
}

// Timer divides a rank's time among phases. One goroutine uses it at a time.
type Timer struct {
	phases  []Phase
	spent   []time.Duration
	current int // the current phase, or -1
	since   time.Time
	Traffic Traffic // the rank's requests to other ranks; filled in at the end of the run
}

// NewTimer returns a Timer of phases, which are numbered in this order. The time starts with the
// first Enter.
func NewTimer(phases ...Phase) *Timer {
	return &Timer{phases: phases, spent: make([]time.Duration, len(phases)), current: -1}
}

// Enter ends the current phase, if there is one, and begins another one.
func (t *Timer) Enter(phase int) {
	now := time.Now()
	t.end(now)
	t.current, t.since = phase, now
}

// Stop ends the current phase.
func (t *Timer) Stop() {
	t.end(time.Now())
	t.current = -1
}

func (t *Timer) end(now time.Time) {
	if t.current >= 0 {
		t.spent[t.current] += now.Sub(t.since)
	}
}

// Elapsed returns the time of all phases together.
func (t *Timer) Elapsed() (sum time.Duration) {
	for _, d := range t.spent {
		sum += d
	}
	return sum
}

// Values returns the time of all phases together and of each, in seconds, and then the
// traffic, for a reduction over all ranks: Report.Fill takes sums and maxima of them.
func (t *Timer) Values() []float64 {
	v := []float64{t.Elapsed().Seconds()}
	for _, d := range t.spent {
		v = append(v, d.Seconds())
	}
	for _, c := range []Count{t.Traffic.Get, t.Traffic.Put, t.Traffic.Store} {
		v = append(v, float64(c.Operations), float64(c.Bytes))
	}
	return v
}
