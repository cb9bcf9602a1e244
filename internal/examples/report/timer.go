package report

import "time"

// Phase is a part of a run that is timed by itself. A rank that has nothing to do until
// others have is in a phase that waits; in all others it computes.
type Phase struct {
	Name  string
	Waits bool
}

// Timer divides a rank's time among phases. One goroutine uses it at a time.
type Timer struct {
	phases  []Phase
	spent   []time.Duration
	current int // phase that runs, or -1
	since   time.Time
	Traffic Traffic // what the rank has asked of others; whoever ends the run fills it in
}

// NewTimer returns a Timer of these phases, which are numbered in this order. It stands
// still until Enter.
func NewTimer(phases ...Phase) *Timer {
	return &Timer{phases: phases, spent: make([]time.Duration, len(phases)), current: -1}
}

// Enter ends the phase that runs, if one does, and begins the given one.
func (t *Timer) Enter(phase int) {
	now := time.Now()
	t.end(now)
	t.current, t.since = phase, now
}

// Stop ends the phase that runs.
func (t *Timer) Stop() {
	t.end(time.Now())
	t.current = -1
}

func (t *Timer) end(now time.Time) {
	if t.current >= 0 {
		t.spent[t.current] += now.Sub(t.since)
	}
}

// Elapsed is the time of all phases together.
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
