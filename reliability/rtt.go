package reliability

// minLife is for how long, in nanoseconds, the smallest round trip seen counts,
// and at most twice as long: after that, paths may have changed. What replaces
// it is the smallest of the last minLife, not the sample that comes next, which
// a queue or a sleeping process may have delayed.
const minLife = 10_000_000_000

// outlier is how many times the smoothed round trip a sample counts at most.
const outlier = 8

// rttEstimator smooths round-trip samples (RFC 6298) and keeps the smallest.
// Its caller takes samples only from frames that were sent once (Karn).
type rttEstimator struct {
	smoothed  int64 // ns; 0 before the first sample
	variation int64 // ns
	smallest  int64 // ns; 0 before the first sample that is sure
	recent    int64 // ns; smallest since recentAt
	recentAt  int64
	rto       int64 // ns, without back-off, within the Config's bounds
}

func (e *rttEstimator) init(cfg *Config) {
	*e = rttEstimator{rto: cfg.MinRTO}
}

// sample takes a sample. If it is not sure, it may be far too long, and says nothing of the smallest.
func (e *rttEstimator) sample(now, rtt int64, sure bool, cfg *Config) {
	rtt = max(rtt, 1)
	switch {
	case !sure:
	case e.smallest == 0:
		e.smallest, e.recent, e.recentAt = rtt, rtt, now
	default:
		e.smallest, e.recent = min(e.smallest, rtt), min(e.recent, rtt)
		if now-e.recentAt > minLife {
			e.smallest, e.recent, e.recentAt = e.recent, rtt, now
		}
	}
	if e.smoothed == 0 {
		e.smoothed, e.variation = rtt, rtt/2
	} else {
		// One sample that a sleeping process spoiled must not slow the
		// connection down; several do.
		err := min(rtt, outlier*e.smoothed) - e.smoothed
		e.smoothed += err / 8
		e.variation += (max(err, -err) - e.variation) / 4
	}
	e.rto = min(max(e.smoothed+4*e.variation+cfg.AckDelay, cfg.MinRTO), cfg.MaxRTO)
}
