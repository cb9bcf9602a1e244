package reliability

import (
	"math"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
)

const (
	// reorderMin is the minimum time, in nanoseconds, by which a frame must be later than one sent
	// after it to be considered lost.
	reorderMin = 10_000
	// probeMin is the minimum time before a tail probe, in addition to the peer's acknowledgement
	// delay: scheduling the peer's process may take that long.
	probeMin = 300_000
	// maxProbes is the number of probes before the first timeout. The interval doubles after every
	// second probe: a full queue drops several in a row, and a timeout costs much more than a
	// probe.
	maxProbes = 8
	// maxDoubt bounds the doubling of the time to a probe. It doubles while every answer follows a
	// probe, and so gives no round-trip sample.
	maxDoubt = 5
	// stalledTries times MaxTries timeouts without progress end a connection whose peer still sends
	// frames.
	stalledTries = 4
	// probeMore is how many further frames accompany a probe, or the frame of a timeout, if many
	// frames are lost although no queue shows.
	probeMore = 3
	// longSilence is the number of timeouts without any frame from the peer after which a frame
	// from it shortens the next timeout.
	longSilence = 3
)

// transmission describes one transmission of a frame.
type transmission struct {
	order       uint32
	sentAt, rtt int64
	ok          bool
}

// newest replaces t by u if u was sent later.
func (t *transmission) newest(u transmission) {
	if u.ok && (!t.ok || int32(u.order-t.order) > 0) {
		*t = u
	}
}

// recovery detects losses: by comparing send times with those of later frames (RACK, RFC 8985
// section 6), by tail probes (TLP, section 7) and by retransmission timeouts (RFC 6298, section 5).
type recovery struct {
	latest    transmission // the latest-sent frame that was delivered
	reorder   int64        // reordering window, ns
	reorderAt int64        // when the next late frame counts as lost, or never
	timeoutAt int64        // when a probe or a timeout is due, or never
	timeout   bool         // it is a timeout
	probes    uint8        // probes since the last progress
	doubt     uint8        // how often the time to a probe was doubled
	backoff   uint8        // how often the timeout was doubled
	tries     uint16       // timeouts since the last progress
	silent    uint16       // timeouts since the peer's last frame
	triesFrom int64        // when the first of tries occurred
	more      uint8        // frames that may be sent with a probe or timeout, whatever the window
	moreTo    uint32       // the first transmission that is not repeated for that reason
	due       cause        // why dueSeq is retransmitted, whatever the window
	dueSeq    ethertype.Seq
}

// cause is the reason for a retransmission.
type cause uint8

const (
	causeNone cause = iota
	causeLost
	causeProbe
	causeTimeout
)

func (r *recovery) init() {
	*r = recovery{reorder: reorderMin, reorderAt: never, timeoutAt: never}
}

// tally counts the effects of one acknowledgement.
type tally struct {
	acked    int           // frames
	flight   int           // frames in flight before it
	needless int           // frames that had been retransmitted needlessly
	high     ethertype.Seq // one past the highest acknowledged
	fresh    transmission  // the newest of the frames sent once
	again    transmission  // the newest of the retransmitted frames
}

// deliver removes a frame that is acknowledged for the first time from its queue.
func (s *Sender) deliver(now int64, seq ethertype.Seq, slot *frame, t *tally) {
	if slot.state == stateLost {
		s.lost.remove(&s.ring, seq)
	} else {
		s.out.remove(&s.ring, seq)
	}
	t.acked++
	u := transmission{order: slot.order, sentAt: slot.sentAt, rtt: now - slot.sentAt, ok: true}
	switch {
	case !slot.resent:
		if seq.Less(s.high) {
			s.overtaken(u.rtt - s.rec.latest.rtt)
		}
		t.fresh.newest(u)
	case u.rtt < s.rtt.smallest-s.rtt.smallest/4: // too soon for an answer to this one: the first transmission had arrived
		t.needless++
	default:
		t.again.newest(u)
		if s.rec.probes > 0 || s.rec.tries > 0 {
			s.cc.inAll.lost()
		}
	}
}

// overtaken enlarges the reordering window after a frame that arrived late nanoseconds behind a
// frame that was sent after it.
func (s *Sender) overtaken(late int64) {
	s.rec.reorder = s.reorderLimit(max(s.rec.reorder, late+late/4))
}

// reorderLimit bounds a reordering window. RFC 8985 allows one round trip. On a segment a round
// trip is the time of a few dozen frames, which is too short for frames that 64 others overtake.
func (s *Sender) reorderLimit(ns int64) int64 {
	return min(ns, max(4*s.rtt.smoothed, reorderMin))
}

// progress updates window, timers and losses after an acknowledgement of new frames.
func (s *Sender) progress(now int64, t *tally) {
	if t.fresh.ok {
		rtt, sure := s.roundTrip(t)
		s.rtt.sample(now, rtt, sure, s.cfg)
		s.rec.backoff, s.rec.doubt = 0, 0
	} else if t.again.ok && t.again.rtt <= 2*s.rtt.smoothed { // the round trip is unchanged, so frames were lost
		s.rec.doubt = 0
	} else if s.rec.probes > 0 {
		s.rec.doubt = min(s.rec.doubt+1, maxDoubt)
	}
	s.judge(now, t)
	s.rec.latest.newest(t.fresh)
	s.cc.lately.arrived(t.acked)
	s.cc.inAll.arrived(t.acked)
	s.detectLost(now)
	s.cc.grow(s.rec.latest.sentAt, t.acked, t.flight, s.cc.window < gentle && s.quiet())
	s.rec.probes, s.rec.tries, s.rec.due, s.rec.more = 0, 0, causeNone, 0
	s.rec.backoff /= 2
	if s.una == s.nxt {
		s.rec.timeoutAt = never
	} else {
		s.arm(now)
	}
}

// roundTrip returns the round-trip sample of an acknowledgement, from a frame that was sent once,
// and whether the sample is reliable. If there were probes or timeouts before the first sample of a
// connection, that sample may include the time for which acknowledgements were lost, and pacing
// would follow it. It is therefore bounded by the first timeout; later samples correct a value that
// is too small. It also does not count as the smallest round trip: the answer to each
// retransmission would then seem too early, and be attributed to the first transmission.
func (s *Sender) roundTrip(t *tally) (rtt int64, sure bool) {
	rtt, sure = t.fresh.rtt, s.rtt.smoothed != 0 || s.rec.probes == 0 && s.rec.tries == 0
	if !sure && s.rec.tries > 0 {
		rtt = min(rtt, s.cfg.MinRTO)
	}
	return rtt, sure
}

// judge decides whether retransmissions were necessary.
func (s *Sender) judge(now int64, t *tally) {
	if t.needless > 0 {
		s.stats.Needless += uint64(t.needless)
		s.rec.reorder = s.reorderLimit(2 * s.rec.reorder)
		if s.cc.needless(t.needless) {
			s.stats.Undone++
		}
	}
	if s.rec.tries > 0 && t.fresh.ok {
		// Frames from before the timeout arrive: the peer was only slow (F-RTO, RFC 5682). The
		// acknowledgement of the retransmitted frame says nothing about frames that are still in
		// flight.
		s.cc.undo()
		s.stats.Undone++
		return
	}
	if !t.again.ok {
		return
	}
	s.cc.needed()
	s.rec.latest.newest(t.again)
	if s.rec.probes > 0 && s.rec.tries == 0 && !t.fresh.ok && t.flight >= s.cc.frames() {
		s.cut(now, t.again.sentAt) // a whole window was lost, and a probe repaired it
	}
}

func (s *Sender) cut(now, sentAt int64) {
	if s.cc.cut(now, sentAt) {
		s.stats.Cuts++
		s.rec.reorder -= (s.rec.reorder - reorderMin) / 16
	}
}

// detectLost moves frames that are too late to the queue of lost frames: those sent earlier than
// the latest delivered frame by more than a round trip and the reordering window.
func (s *Sender) detectLost(now int64) {
	r := &s.rec
	r.reorderAt = never
	patience := r.latest.rtt + max(r.reorder, s.rtt.smallest/4)
	for r.latest.ok && s.out.n > 0 {
		seq := s.full(s.out.head)
		slot := s.ring.at(seq)
		if int32(slot.order-r.latest.order) >= 0 {
			return
		}
		if lostAt := slot.sentAt + patience; lostAt > now {
			r.reorderAt = lostAt
			return
		}
		s.out.remove(&s.ring, seq)
		s.lost.push(&s.ring, seq)
		slot.state = stateLost
		s.cc.lately.lost()
		s.cc.inAll.lost()
		if !s.quiet() {
			s.cut(now, slot.sentAt)
		}
	}
}

// full returns the sequence number in flight whose low 16 bits are short.
func (s *Sender) full(short uint16) ethertype.Seq {
	return s.una + ethertype.Seq(short-uint16(s.una))
}

// heard records that a valid frame of the peer has arrived.
func (s *Sender) heard(now int64) {
	s.heardAt = now
	if s.rec.silent == 0 {
		return
	}
	if at := now + s.rtt.rto; s.rec.silent >= longSilence && at < s.rec.timeoutAt {
		s.rec.backoff, s.rec.timeoutAt = 0, at
	}
	s.rec.silent = 0
}

// arm sets the time of the next probe or timeout.
func (s *Sender) arm(now int64) {
	r := &s.rec
	if r.backoff == 0 && r.tries == 0 && r.probes < maxProbes {
		if wait := s.probeAfter() << (r.probes/2 + r.doubt); wait < s.rtt.rto {
			r.timeoutAt, r.timeout = now+wait, false
			return
		}
	}
	r.timeoutAt, r.timeout = now+min(s.rtt.rto<<r.backoff, s.cfg.MaxRTO), true
}

// probeAfter returns the time before the first probe.
func (s *Sender) probeAfter() int64 {
	return max(2*s.rtt.smoothed, probeMin, s.interval()) + s.cfg.AckDelay
}

// OnTimer performs the actions that are due at now. Calls before Deadline do nothing. It returns an
// *UnreachableError if the peer has not answered for too long: the connection has then ended.
func (s *Sender) OnTimer(now int64) error {
	if s.waiting && now >= s.cc.nextSend {
		s.waiting = false
	}
	if now >= s.rec.reorderAt {
		s.detectLost(now)
	}
	if now >= s.rec.timeoutAt {
		return s.expire(now)
	}
	return nil
}

// expire schedules a probe or a retransmission on timeout.
func (s *Sender) expire(now int64) error {
	r := &s.rec
	switch {
	case s.out.n == 0: // no answer can arrive, because no frame is in flight
	case !r.timeout && s.probeLater(now):
		return nil
	case !r.timeout:
		r.probes++
		r.due, r.dueSeq = causeProbe, s.full(s.out.tail)
		s.sendMore()
	default:
		if r.tries == 0 {
			r.triesFrom = now
		}
		r.tries = min(r.tries, math.MaxUint16-1) + 1
		r.silent = min(r.silent, math.MaxUint16-1) + 1
		if s.unreachable(now) {
			r.timeoutAt = never
			return &UnreachableError{Tries: int(r.tries), Silent: time.Duration(now - s.heardAt)}
		}
		s.cc.collapse(now, r.tries == 1)
		r.due, r.dueSeq = causeTimeout, s.una
		s.sendMore()
		if s.rtt.rto<<r.backoff < s.cfg.MaxRTO {
			r.backoff++
		}
	}
	s.arm(now)
	return nil
}

// probeLater postpones the first probe if the newest frame in flight was sent after the timer was set: its acknowledgement
// is not late yet (RFC 8985, section 7.2). Sending many frames can take longer than a round trip. As in the RFC, the probe
// is due at the latest when the oldest frame has been in flight for a retransmission timeout.
func (s *Sender) probeLater(now int64) bool {
	newest, oldest := s.ring.at(s.full(s.out.tail)), s.ring.at(s.full(s.out.head))
	due := min(newest.sentAt+s.probeAfter()<<s.rec.doubt, oldest.sentAt+s.rtt.rto)
	if s.rec.probes > 0 || now >= due {
		return false
	}
	s.rec.timeoutAt = due
	return true
}

// sendMore lets further frames accompany a probe, or the frame of a timeout, if many frames are
// lost and no queue shows. The window is then a frame or less, so no later frame reveals the loss,
// and half of the probes get no answer. If several frames are sent, at least one usually gets an
// answer, whose bitmap shows what else is missing. From the second probe on, the same frame may be
// sent more than once.
func (s *Sender) sendMore() {
	r := &s.rec
	if s.cc.inAll <= lossAtFirst || !s.calm() && (r.latest.ok || r.probes < maxProbes/2) {
		return
	}
	r.more, r.moreTo = probeMore, s.order+1
	if r.probes > 1 || r.tries > 0 {
		r.moreTo += probeMore
	}
}

// unreachable reports whether Config.MaxTries and the user timeout are both exceeded.
func (s *Sender) unreachable(now int64) bool {
	r := &s.rec
	return int(r.silent) >= s.cfg.MaxTries && now-s.heardAt >= s.timeout ||
		int(r.tries) >= stalledTries*s.cfg.MaxTries && now-r.triesFrom >= s.timeout
}

// Bear resets the time for which the peer has not answered. A caller that knows that the peer is
// alive calls it before OnTimer, which then returns no error.
func (s *Sender) Bear(now int64) {
	r := &s.rec
	r.silent, r.tries, r.triesFrom = 0, min(r.tries, 1), now // the next timeout is not the first one
}

// Deadline returns when to call OnTimer, or math.MaxInt64 for never.
func (s *Sender) Deadline() int64 {
	at := min(s.rec.timeoutAt, s.rec.reorderAt)
	if s.waiting {
		at = min(at, s.cc.nextSend)
	}
	return at
}

// Retransmit returns the next frame to send again at now, and records it as sent. ok is false if
// there is none, or if it must wait for the window or the pace. The caller sends it with its old
// number seq, and with FlagRetry and FlagAckNow. f is valid until the next call of a method of s.
func (s *Sender) Retransmit(now int64) (f *Sent, seq ethertype.Seq, ok bool) {
	switch {
	case s.rec.due == causeProbe:
		s.stats.Probes++
		seq = s.rec.dueSeq
	case s.rec.due == causeTimeout:
		s.stats.Timeouts++
		seq = s.rec.dueSeq
	case s.rec.more > 0 && s.hasMore():
		s.rec.more--
		s.stats.Probes++
		seq = s.nextMore()
	case s.lost.n > 0 && int(s.out.n) < s.cc.frames() && s.mayPace(now):
		s.stats.Fast++
		seq = s.full(s.lost.head)
		s.cc.retransmitted()
		if s.out.n == 0 {
			s.arm(now)
		}
	default:
		return nil, 0, false
	}
	s.rec.due = causeNone
	slot := s.ring.at(seq)
	if slot.state == stateLost {
		s.lost.remove(&s.ring, seq)
	} else {
		s.out.remove(&s.ring, seq)
	}
	slot.resent = true
	slot.wait(now)
	s.send(now, seq, slot)
	return &slot.Sent, seq, true
}

// hasMore reports whether there is a frame that may accompany a probe.
func (s *Sender) hasMore() bool {
	return s.lost.n > 0 || s.out.n > 0 && int32(s.ring.at(s.full(s.out.head)).order-s.rec.moreTo) < 0
}

// nextMore returns the next frame to accompany a probe.
func (s *Sender) nextMore() ethertype.Seq {
	if s.lost.n > 0 {
		return s.full(s.lost.head)
	}
	return s.full(s.out.head)
}
