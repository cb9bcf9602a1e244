package reliability

// Two programs that talk, as a client and its server do, answer each frame by another one, which
// can carry the acknowledgement. If they take longer than AckDelay for that, because they wake
// up or compute, an acknowledgement of its own goes before, which costs both hosts more than the
// wait: it may wake a thread that has nothing to do then. So while frames are answered within
// talkDelay, a Receiver waits so long for an answer. It does not wait if the program waits itself
// and the peer has asked for the acknowledgement; see Receiver.AckHeld.
const (
	talkDelay = 250_000 // ns; less than a Sender waits for an acknowledgement before it probes
	talkTimes = 5       // and at most so many times AckDelay
	talkFrom  = 4       // answers in time that make a talk
	talkMost  = 8
)

// talk is what a Receiver knows of whether its peer is answered soon.
type talk struct {
	came  int64 // when the first frame came that has not been answered, or never
	score int   // answers in time, less talkFrom for each wait in vain
}

// on reports whether frames are answered soon.
func (t *talk) on() bool { return t.score >= talkFrom }

// delay is how long an acknowledgement waits for a frame that can carry it.
func (t *talk) delay(cfg *Config) int64 {
	if !t.on() {
		return cfg.AckDelay
	}
	return t.most(cfg)
}

// most is the longest that delay returns.
func (t *talk) most(cfg *Config) int64 {
	return max(cfg.AckDelay, min(talkTimes*cfg.AckDelay, talkDelay))
}

// answered notes a frame that answers those that have come.
func (t *talk) answered(now int64, cfg *Config) {
	if t.came == never {
		return
	}
	if now-t.came <= t.most(cfg) {
		t.score = min(t.score+1, talkMost)
	} else {
		t.score = 0
	}
	t.came = never
}

// inVain notes that an acknowledgement has waited for a frame in vain.
func (t *talk) inVain() {
	if t.on() {
		t.score -= talkFrom
	}
}
