package reliability

const (
	// quietSlack is the minimum excess of a round trip over the smallest one, in nanoseconds, that
	// counts as a queue: the time of three full frames at 10 Gb/s. With a higher value a queue of
	// four frames would go unnoticed.
	quietSlack = 4_000
	// lossSpan is the number of frames over which the loss rate is averaged, approximately.
	lossSpan = 64
	// lossLimit is the loss rate from which on every loss counts as congestion, whatever the
	// round-trip times are.
	lossLimit = oneFrame / 8
	// lossAtFirst is the assumed loss rate of a new connection. Until about 44 frames have arrived,
	// which includes the end of the first slow start, every loss counts as congestion.
	lossAtFirst = oneFrame / 4
)

// lossShare is the recent loss rate, with fracBits fractional bits: an exponentially weighted mean.
type lossShare int32

// lost records a lost frame.
func (l *lossShare) lost() { *l += (oneFrame - *l) / lossSpan }

// arrived records n frames that arrived. A rest below lossSpan becomes 0, because it is negligible
// and a rate of 0 costs no time.
func (l *lossShare) arrived(n int) {
	if *l >= lossSpan {
		*l -= *l * lossShare(min(n, lossSpan/2)) / lossSpan
	}
}

// quiet reports whether the frame that was delivered last met no queue on its way. Its delivery
// reveals the loss of earlier frames. A full queue that drops frames delays those that it does not
// drop. quiet also requires that few frames are missing: if the smallest round trip included a
// queue, or if the queue is too short to be measured, then the loss rate shows it.
func (s *Sender) quiet() bool {
	return s.cc.lately < lossLimit && s.calm()
}

// calm reports whether the round trip of the frame that was delivered last shows no queue.
func (s *Sender) calm() bool {
	return s.rec.latest.ok && s.rec.latest.rtt <= s.rtt.smallest+s.rtt.slack()
}

// slack returns by how much a round trip may exceed the smallest one without a queue. Hosts also
// delay frames, each by a different time. The mean deviation measures these delays, but hardly a
// queue, which delays consecutive frames alike. slack does not grow with the round trip: a new
// connection that meets a standing queue mistakes its delay for the path's, and would take the
// share of other connections if it ignored a somewhat longer queue.
func (e *rttEstimator) slack() int64 {
	return max(quietSlack, e.variation+e.variation/2)
}
