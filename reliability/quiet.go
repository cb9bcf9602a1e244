package reliability

const (
	// quietSlack is by how much, in nanoseconds, a round trip may exceed the
	// smallest at the least and still have met no queue: three full frames at
	// 10 Gb/s. With more, a queue of four frames could not be told from none.
	quietSlack = 4_000
	// lossSpan is over how many frames, about, the share of lost ones is
	// averaged.
	lossSpan = 64
	// lossLimit is the share of lost frames from which on every loss counts as
	// congestion, whatever the round trips say.
	lossLimit = oneFrame / 8
	// lossAtFirst is the share that is assumed of a new connection: until some
	// 44 frames have arrived, the end of the first slow start among them, every
	// loss counts.
	lossAtFirst = oneFrame / 4
)

// lossShare is the share of frames lost lately, with fracBits binary digits
// after the point: an exponentially weighted mean.
type lossShare int32

// lost records a lost frame.
func (l *lossShare) lost() { *l += (oneFrame - *l) / lossSpan }

// arrived records n frames that arrived. A rest below lossSpan is dropped: it is
// negligible, and a share of zero costs no time.
func (l *lossShare) arrived(n int) {
	if *l >= lossSpan {
		*l -= *l * lossShare(min(n, lossSpan/2)) / lossSpan
	}
}

// quiet reports whether the frame that was delivered last, by which earlier ones are
// found to be lost, has met no queue on its way. A full queue, which loses frames, delays
// those that it does not lose. quiet also wants few frames to be missing: if the smallest
// round trip has met a queue itself, or the queue is too short for its delay to show, then
// the losses show it.
func (s *Sender) quiet() bool {
	return s.cc.lately < lossLimit && s.calm()
}

// calm reports whether the round trip of the frame that was delivered last shows no queue.
func (s *Sender) calm() bool {
	return s.rec.latest.ok && s.rec.latest.rtt <= s.rtt.smallest+s.rtt.slack()
}

// slack returns by how much a round trip may exceed the smallest and still
// have met no queue. Hosts delay frames too, each frame by another time. The mean
// deviation measures that, and hardly measures a queue, which delays successive frames
// alike. slack does not grow with the round trip itself: a new connection that meets a
// standing queue takes its delay for that of the path, and would take the other
// connections' share if a somewhat longer queue did not count.
func (e *rttEstimator) slack() int64 {
	return max(quietSlack, e.variation+e.variation/2)
}
