package reliability

import (
	"math/bits"

	"github.com/bobnet-go/bobnet/ethertype"
)

// Sender stores the sequenced frames of one connection until the peer has acknowledged them, and
// decides which frames to send and to send again. The zero Sender needs Init. Only one goroutine at
// a time may use it.
//
// The caller sends the frames that Retransmit returns, and then as many new frames as Room allows,
// each recorded with Push. It passes acknowledgements to OnAck, and calls OnTimer at Deadline.
// After OnAck and OnTimer there may be more to send.
type Sender struct {
	cfg      *Config
	una, nxt ethertype.Seq // lowest unacknowledged; next to be pushed
	high     ethertype.Seq // one past the highest acknowledged
	asked    ethertype.Seq // where FlagAckNow was last set
	ring     ring
	out      queue // frames in flight, in the order in which they were sent
	lost     queue // frames to retransmit
	rtt      rttEstimator
	cc       congestion
	rec      recovery
	order    uint32 // transmissions so far
	waiting  bool   // a frame waits for the pace: nextSend is a deadline
	heardAt  int64  // when the peer's last frame arrived; before that, when the flight began
	timeout  int64  // see SetUserTimeout
	stats    SenderCounters
}

// Init prepares s for a connection whose first frame has the number first. A nil cfg means the
// defaults. Init panics if cfg.Validate would return an error. It reuses the memory of s.
func (s *Sender) Init(cfg *Config, first ethertype.Seq) {
	mustBeValid(cfg)
	cfg = cfg.Resolve()
	clear(s.ring.acked)
	*s = Sender{cfg: cfg, una: first, nxt: first, high: first, asked: first, ring: s.ring}
	s.rtt.init(cfg)
	s.cc.init(cfg)
	s.rec.init()
}

// SetUserTimeout sets the user timeout (TCP's, RFC 5482) to ns nanoseconds. Retransmission timeouts
// then do not end the connection until the peer has been silent, or has acknowledged nothing, for
// that time. The initial value 0 means that only Config.MaxTries decides. It may be called at any
// time.
func (s *Sender) SetUserTimeout(ns int64) { s.timeout = ns }

func mustBeValid(cfg *Config) {
	if err := cfg.Validate(); err != nil {
		panic(err)
	}
}

// Room returns the number of new frames that may be sent at now. It is 0 while retransmissions
// need all the room: call Retransmit first.
func (s *Sender) Room(now int64) int {
	room := s.cfg.Window - s.nxt.Sub(s.una)
	if s.lost.n == 0 && !s.cc.paced() {
		return max(min(room, s.cc.frames()-int(s.out.n)), 0)
	}
	if room <= 0 {
		return 0
	}
	if s.rec.more > 0 && s.lost.n == 0 {
		return min(room, int(s.rec.more))
	}
	if !s.mayPace(now) {
		return 0
	}
	return max(min(room, s.cc.frames()-int(s.out.n)-int(s.lost.n)), 0)
}

// mayPace reports whether pacing allows a frame at now. If not, it records that a frame waits for
// nextSend.
func (s *Sender) mayPace(now int64) bool {
	if s.cc.paced() && now < s.cc.nextSend {
		s.waiting = true
		return false
	}
	return true
}

// Push records a new frame, which Room must have allowed, as sent at now. The caller sends it with
// the number seq, and with FlagAckNow if ackNow is true.
//
// lone means that the caller has no further frame to send, and that this frame is the only one in
// flight after the caller has processed what has arrived. Every frame of a ping-pong is of this
// kind, and its answer acknowledges it. A lone frame requests an acknowledgement only if the window
// is one frame. By the rule for other frames it would also request one if losses have left a window
// of two, because one is half of that window. Each acknowledgement would then be a bare one.
func (s *Sender) Push(now int64, f Sent, lone bool) (seq ethertype.Seq, ackNow bool) {
	seq = s.nxt
	inFlight := seq.Sub(s.una)
	if inFlight == len(s.ring.slots) {
		s.ring.grow(s.una)
	}
	if inFlight == 0 {
		s.startTimer(now)
	}
	s.nxt++
	slot := s.ring.at(seq)
	slot.Sent, slot.waited, slot.resent = f, 0, false
	s.send(now, seq, slot)
	s.stats.Sent++
	if s.rec.more > 0 {
		s.rec.more--
	}
	return seq, s.askNow() && (!lone || s.window() == 1)
}

// Stamp sets the time of the frame that the last Push recorded to now. It must be the only frame in
// flight. This lets a caller send a lone frame before it reads the clock.
func (s *Sender) Stamp(now int64) {
	if s.InFlight() == 1 {
		s.ring.at(s.una).sentAt = now
		s.arm(now)
	}
}

// startTimer starts the timer for the first frame in flight.
func (s *Sender) startTimer(now int64) {
	if s.heardAt == 0 {
		s.heardAt = now
	}
	s.arm(now)
}

// send records a transmission of a frame.
func (s *Sender) send(now int64, seq ethertype.Seq, slot *frame) {
	s.order++
	slot.order, slot.sentAt, slot.state = s.order, now, stateOut
	s.out.push(&s.ring, seq)
	if s.cc.paced() {
		s.waiting = false
		s.cc.nextSend = now + s.interval()
	}
}

// interval returns the time between paced frames. It is bounded, so that a wrong round-trip time
// cannot stop the connection.
func (s *Sender) interval() int64 {
	return min(s.cc.interval(s.rtt.smoothed), s.cfg.MinRTO)
}

// askNow decides whether the frame pushed last requests an acknowledgement. It does if it fills the
// window, or if half of a window was sent since the last request.
func (s *Sender) askNow() bool {
	if s.asked.Less(s.una) {
		s.asked = s.una
	}
	window := s.window()
	if int(s.out.n) < window && s.nxt.Sub(s.una) < s.cfg.Window && 2*s.nxt.Sub(s.asked) < window {
		return false
	}
	s.asked = s.nxt
	return true
}

// AskEach reports whether the frame pushed last should request an acknowledgement: the n-th frame
// since the last request, or since the last acknowledged frame. If it returns true, it records the
// request. If the peer's own frames carry acknowledgements, requests are therefore rare.
func (s *Sender) AskEach(n int) bool {
	if s.nxt.Sub(s.asked) < n {
		return false
	}
	s.asked = s.nxt
	return true
}

// window returns how many frames may be in flight: the smaller of the congestion window
// and Config.Window.
func (s *Sender) window() int { return min(s.cfg.Window, s.cc.frames()) }

// OnAck processes the acknowledgement in a valid frame from the peer: the cumulative ack, the
// bitmap sack after it, and the payload more of a bare acknowledgement, or nil. progress reports
// whether a frame was acknowledged for the first time. If the acknowledgement is for frames that
// were never sent, or malformed, it is counted and ignored, and valid is false.
func (s *Sender) OnAck(now int64, ack ethertype.Seq, sack uint64, more []byte) (progress, valid bool) {
	n := ack.Sub(s.una)
	if !s.InWindow(ack) || sack|uint64(len(more)) != 0 && !s.validSack(ack, sack, more) {
		s.stats.Invalid++
		return false, false
	}
	if n < 0 || n == 0 && sack == 0 && len(more) == 0 { // older than a previous one, or nothing new
		s.heard(now)
		return false, true
	}
	t := tally{flight: int(s.out.n), high: s.high}
	s.deliverUntil(now, ack, &t)
	s.deliverSack(now, ack+1, sack, &t)
	for i := 0; i < len(more); i += 8 {
		s.deliverSack(now, ack+65+ethertype.Seq(8*i), sackWord(more, i), &t)
	}
	for s.una != s.nxt && s.ring.at(s.una).state == stateAcked { // a hostile peer: no Receiver acknowledges its next expected frame selectively
		s.ring.clearAcked(s.una)
		s.una++
	}
	s.high = t.high
	s.heard(now)
	if t.acked > 0 {
		s.progress(now, &t)
	}
	return t.acked > 0, true
}

// deliverUntil delivers the frames before ack that were not delivered yet.
func (s *Sender) deliverUntil(now int64, ack ethertype.Seq, t *tally) {
	for ; s.una != ack; s.una++ {
		if slot := s.ring.at(s.una); slot.state == stateAcked {
			s.ring.clearAcked(s.una)
		} else {
			s.deliver(now, s.una, slot, t)
		}
	}
	if t.high.Less(ack) {
		t.high = ack
	}
}

// deliverSack delivers the frames of the bits in one word that were not delivered yet. The least
// significant bit stands for first.
func (s *Sender) deliverSack(now int64, first ethertype.Seq, word uint64, t *tally) {
	if word == 0 { // the ring may still be empty
		return
	}
	word &^= window64(s.ring.acked, first)
	for ; word != 0; word &= word - 1 {
		seq := first + ethertype.Seq(bits.TrailingZeros64(word))
		s.deliver(now, seq, s.ring.at(seq), t)
		s.ring.at(seq).state = stateAcked
		s.ring.setAcked(seq)
		if !seq.Less(t.high) {
			t.high = seq + 1
		}
	}
}

// NextSeq returns the number of the next new frame.
func (s *Sender) NextSeq() ethertype.Seq { return s.nxt }

// Una returns the lowest unacknowledged number, or NextSeq if all are acknowledged.
func (s *Sender) Una() ethertype.Seq { return s.una }

// OldestSize returns the number of data bytes in the frame Una, or 0 if no frame is in flight.
func (s *Sender) OldestSize() uint32 {
	if s.una == s.nxt {
		return 0
	}
	return s.ring.at(s.una).Size
}

// Covers reports whether ack is a possible acknowledgement: of frames that were sent, and not less
// than what is acknowledged already.
func (s *Sender) Covers(ack ethertype.Seq) bool {
	return s.una.LessEq(ack) && ack.LessEq(s.nxt)
}

// InWindow reports whether ack is plausible: it is not beyond what was sent, and not so old that no
// frame in the network can still carry it. At most one in two million random numbers passes, so a
// station that has never seen a frame of the connection is unlikely to guess one.
func (s *Sender) InWindow(ack ethertype.Seq) bool {
	n := ack.Sub(s.una)
	return -ackHistory <= n && n <= s.nxt.Sub(s.una)
}

// InFlight returns the count of sequence numbers from Una to NextSeq. These are the frames in
// flight, and the first of them is unacknowledged.
func (s *Sender) InFlight() int { return s.nxt.Sub(s.una) }

// Queued returns how many frames are considered lost and wait to be sent again.
func (s *Sender) Queued() int { return int(s.lost.n) }

// Acked reports whether all frames from first to last, inclusive, have been acknowledged,
// cumulatively or selectively.
func (s *Sender) Acked(first, last ethertype.Seq) bool {
	if last.Less(s.una) {
		return true
	}
	if first.LessEq(s.una) || s.nxt.LessEq(last) {
		return false
	}
	for seq := first; seq.LessEq(last); seq++ {
		if s.ring.at(seq).state != stateAcked {
			return false
		}
	}
	return true
}

// Mark returns the number of transmissions so far, for LongerAcked.
func (s *Sender) Mark() uint32 { return s.order }

// LongerAcked reports whether a frame of more than size bytes that was sent since mark has been
// acknowledged selectively. It examines all frames in flight.
func (s *Sender) LongerAcked(mark, size uint32) bool {
	for seq := s.una; seq != s.nxt; seq++ {
		if f := s.ring.at(seq); f.state == stateAcked && f.Size > size && int32(f.order-mark) > 0 {
			return true
		}
	}
	return false
}
