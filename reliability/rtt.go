package reliability

// minLife is for how long, in nanoseconds, the smallest round trip counts; it may count up to twice
// as long. Afterwards paths may have changed. The smallest sample of the last minLife replaces it,
// not the next sample, which a queue or a sleeping process may have delayed.
const minLife = 10_000_000_000

// outlier bounds a sample to this multiple of the smoothed round trip.
const outlier = 8

// rttEstimator smooths round-trip samples (RFC 6298) and keeps the smallest. The caller must only
// pass samples of frames that were sent once (Karn's algorithm).
type rttEstimator struct {
	smoothed  int64 // ns; 0 before the first sample
	variation int64 // ns
	smallest  int64 // ns; 0 before the first reliable sample
	recent    int64 // ns; the smallest since recentAt
	recentAt  int64
	rto       int64 // ns, without back-off, within the bounds of the Config
}

func (e *rttEstimator) init(cfg *Config) {
	*e = rttEstimator{rto: cfg.MinRTO}
}

// sample processes a sample. If sure is false, the sample may be far too large, and does not count
// as the smallest.
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
		// A single sample that a sleeping process delayed must not slow the connection down.
		// Several such samples do.
		err := min(rtt, outlier*e.smoothed) - e.smoothed
		e.smoothed += err / 8
		e.variation += (max(err, -err) - e.variation) / 4
	}
	e.rto = min(max(e.smoothed+4*e.variation+cfg.AckDelay, cfg.MinRTO), cfg.MaxRTO)
}
