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
// after the point: a mean that forgets.
type lossShare int32

// lost takes note of a lost frame.
func (l *lossShare) lost() { *l += (oneFrame - *l) / lossSpan }

// arrived takes note of n frames that arrived. What is left below lossSpan is
// as good as nothing, and costs nothing.
func (l *lossShare) arrived(n int) {
	if *l >= lossSpan {
		*l -= *l * lossShare(min(n, lossSpan/2)) / lossSpan
	}
}

// quiet reports whether no queue stood on the way of the frame that was
// delivered last, the one that shows which of those before it are lost: a full
// queue, which loses frames, delays those that it does not lose. Few frames
// may be missing: should the smallest round trip have met a queue itself, or
// the queue be too short for its delay to show, then the losses show it.
func (s *Sender) quiet() bool {
	return s.cc.lately < lossLimit && s.rec.latest.rtt <= s.rtt.smallest+s.rtt.slack()
}

// slack returns by how much a round trip may exceed the smallest and still
// have met no queue. Hosts delay frames too, each by another time. The mean
// deviation measures that and hardly a queue, which delays one frame like the
// next. It does not grow with the round trip itself: a newcomer to a queue that
// stands takes its delay for the path's, and would push everybody else aside if
// a somewhat fuller queue did not count.
func (e *rttEstimator) slack() int64 {
	return max(quietSlack, e.variation+e.variation/2)
}
