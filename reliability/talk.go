package reliability

// Two programs in a request-response conversation answer each frame by another one, which can carry
// the acknowledgement. If the answer takes longer than AckDelay, because the program must wake up
// or compute, a separate acknowledgement would go first. It costs both hosts more than waiting: it
// may wake a thread that has nothing to do. So while the program answers frames within talkDelay, a
// Receiver delays the acknowledgement by up to that time. It does not wait if the program itself
// waits and the peer has requested the acknowledgement; see Receiver.AckHeld.
const (
	talkDelay = 250_000 // ns; less than the time before a Sender's probe
	talkTimes = 5       // and at most this multiple of AckDelay
	talkFrom  = 4       // timely answers that make a conversation
	talkMost  = 8
)

// talk estimates how quickly the local program answers its peer.
type talk struct {
	came  int64 // when the first unanswered frame arrived, or never
	score int   // timely answers, less talkFrom for each wait in vain
}

// on reports whether the program currently answers frames soon.
func (t *talk) on() bool { return t.score >= talkFrom }

// delay returns how long an acknowledgement waits for a frame that can carry it.
func (t *talk) delay(cfg *Config) int64 {
	if !t.on() {
		return cfg.AckDelay
	}
	return t.most(cfg)
}

// most returns the maximum of delay.
func (t *talk) most(cfg *Config) int64 {
	return max(cfg.AckDelay, min(talkTimes*cfg.AckDelay, talkDelay))
}

// answered records a frame that answers those that have arrived.
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

// inVain records that an acknowledgement has waited for a frame in vain.
func (t *talk) inVain() {
	if t.on() {
		t.score -= talkFrom
	}
}
