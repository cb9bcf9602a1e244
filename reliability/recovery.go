package reliability

import (
	"math"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
)

const (
	// reorderMin is the least time, in nanoseconds, by which a frame must be
	// later than one sent after it to count as lost.
	reorderMin = 10_000
	// probeMin is the least time before a tail probe, besides the peer's
	// acknowledgement delay: what a host may take to run the peer.
	probeMin = 300_000
	// maxProbes is how many probes come before the first time-out. The time
	// between them doubles after every second: a queue that is full drops some
	// in a row, and a time-out costs far more than a probe.
	maxProbes = 8
	// maxDoubt bounds the doubling of the time to a probe while every answer
	// comes after one and so gives no round-trip sample.
	maxDoubt = 5
	// stalledTries times MaxTries time-outs without progress end a connection
	// whose peer is heard.
	stalledTries = 4
	// probeMore is how many further frames go with a probe, or with the frame of a
	// time-out, where many frames are lost although no queue shows.
	probeMore = 3
	// longSilence is after how many time-outs without any word from the peer
	// a word from it shortens the wait for the next.
	longSilence = 3
)

// transmission is what is known of one frame on its way.
type transmission struct {
	order       uint32
	sentAt, rtt int64
	ok          bool
}

// newest keeps the transmission in t that was sent last.
func (t *transmission) newest(u transmission) {
	if u.ok && (!t.ok || int32(u.order-t.order) > 0) {
		*t = u
	}
}

// recovery finds out what has been lost: by time against what was sent later
// (RACK, RFC 8985 section 6), by tail probes (TLP, section 7) and by
// retransmission time-outs (RFC 6298, section 5).
type recovery struct {
	latest    transmission // the latest sent that was delivered
	reorder   int64        // reordering window, ns
	reorderAt int64        // when the next frame turns from late to lost, or never
	timeoutAt int64        // when a probe or a time-out is due, or never
	timeout   bool         // it is a time-out
	probes    uint8        // probes since anything was acknowledged
	doubt     uint8        // how often the time to a probe is doubled
	backoff   uint8        // how often the time-out is doubled
	tries     uint16       // time-outs since anything was acknowledged
	silent    uint16       // time-outs since the peer was heard
	triesFrom int64        // when the first of tries was
	more      uint8        // frames that may go with a probe or time-out, whatever the window says
	moreTo    uint32       // the first transmission that does not go again for that
	due       cause        // why dueSeq is sent again whatever the window says
	dueSeq    ethertype.Seq
}

// cause says why a frame is sent again.
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

// tally counts what one acknowledgement acknowledges.
type tally struct {
	acked    int           // frames
	flight   int           // frames under way before it
	needless int           // frames that had been sent again although they were not lost
	high     ethertype.Seq // one past the highest acknowledged
	fresh    transmission  // newest of the frames sent once
	again    transmission  // newest of those sent again
}

// deliver takes a frame that is acknowledged for the first time out of its queue.
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

// overtaken enlarges the reordering window for a frame that came later by late, in
// nanoseconds, than one sent after it.
func (s *Sender) overtaken(late int64) {
	s.rec.reorder = s.reorderLimit(max(s.rec.reorder, late+late/4))
}

// reorderLimit bounds a reordering window. RFC 8985 allows one round trip; on
// a segment, where that is the time of a few dozen frames, frames that were
// overtaken by 64 need more.
func (s *Sender) reorderLimit(ns int64) int64 {
	return min(ns, max(4*s.rtt.smoothed, reorderMin))
}

// progress updates window, timers and losses for an acknowledgement of something new.
func (s *Sender) progress(now int64, t *tally) {
	if t.fresh.ok {
		rtt, sure := s.roundTrip(t)
		s.rtt.sample(now, rtt, sure, s.cfg)
		s.rec.backoff, s.rec.doubt = 0, 0
	} else if t.again.ok && t.again.rtt <= 2*s.rtt.smoothed { // the round trip is as before: frames are lost
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

// roundTrip returns the round trip that an acknowledgement shows of a frame sent
// once, and whether that is sure. The first sample of a connection, if there were probes or
// time-outs meanwhile, may show how long acknowledgements were lost instead, and the pace would
// follow it. So it is bounded by the first time-out: later samples correct one that is too short.
// Nor is it taken for the smallest: each answer to a frame that goes again would seem to come too
// soon, and to be to that frame's first transmission.
func (s *Sender) roundTrip(t *tally) (rtt int64, sure bool) {
	rtt, sure = t.fresh.rtt, s.rtt.smoothed != 0 || s.rec.probes == 0 && s.rec.tries == 0
	if !sure && s.rec.tries > 0 {
		rtt = min(rtt, s.cfg.MinRTO)
	}
	return rtt, sure
}

// judge decides whether what was sent again was needed.
func (s *Sender) judge(now int64, t *tally) {
	if t.needless > 0 {
		s.stats.Needless += uint64(t.needless)
		s.rec.reorder = s.reorderLimit(2 * s.rec.reorder)
		if s.cc.needless(t.needless) {
			s.stats.Undone++
		}
	}
	if s.rec.tries > 0 && t.fresh.ok {
		// Frames from before the time-out arrive: the peer was only slow
		// (F-RTO, RFC 5682), and an acknowledgement of the frame sent again
		// says nothing of those that are still under way.
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

// detectLost puts the frames under way that are too late into the queue of the
// lost: those sent before the latest that was delivered, by more than a round
// trip and the reordering window.
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

// heard records that a valid frame of the peer has come, whatever it says.
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

// arm sets when the next probe or time-out is due if nothing is acknowledged.
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

// probeAfter returns how long to wait for an answer before the first probe.
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

// expire arranges for a probe or a retransmission on time-out.
func (s *Sender) expire(now int64) error {
	r := &s.rec
	switch {
	case s.out.n == 0: // no answer can come, because no frame is under way
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

// sendMore lets further frames go with a probe, or with the frame of a time-out, where many frames
// are lost and no queue shows. The window is then a frame or less, so nothing follows a lost
// frame that would show the loss, and half of the probes get no answer. Of several frames one
// gets an answer, and its bitmap shows what else is missing. From the second probe on the
// same frame may go more than once.
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

// unreachable reports whether there have been as many time-outs as Config.MaxTries
// allows, for as long as the user timeout wants.
func (s *Sender) unreachable(now int64) bool {
	r := &s.rec
	return int(r.silent) >= s.cfg.MaxTries && now-s.heardAt >= s.timeout ||
		int(r.tries) >= stalledTries*s.cfg.MaxTries && now-r.triesFrom >= s.timeout
}

// Bear resets the time for which the peer has not answered. A caller that knows that the peer is
// alive calls it before OnTimer, which then returns no error.
func (s *Sender) Bear(now int64) {
	r := &s.rec
	r.silent, r.tries, r.triesFrom = 0, min(r.tries, 1), now // the next time-out is not the first one
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

// hasMore reports whether there is a frame that may go again with a probe.
func (s *Sender) hasMore() bool {
	return s.lost.n > 0 || s.out.n > 0 && int32(s.ring.at(s.full(s.out.head)).order-s.rec.moreTo) < 0
}

// nextMore returns the frame that goes again next with a probe.
func (s *Sender) nextMore() ethertype.Seq {
	if s.lost.n > 0 {
		return s.full(s.lost.head)
	}
	return s.full(s.out.head)
}
