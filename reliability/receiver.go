package reliability

import (
	"encoding/binary"
	"math"

	"github.com/bobnet-go/bobnet/ethertype"
)

// never is a deadline that never passes.
const never int64 = math.MaxInt64

// MaxSack is the maximum number of bytes that Receiver.AppendSack appends.
const MaxSack = (MaxWindow - 64) / 8

// aheadWords is the size of a Receiver's bitmap. It has one bit for each frame
// that may be accepted beyond the next expected, in a ring indexed by sequence number.
const aheadWords = MaxWindow / 64

// Receiver decides what to do with the sequenced frames of one connection, and when to acknowledge
// them. The zero Receiver needs Init. Only one goroutine at a time may use it.
//
// The caller calls Check for each frame. If the verdict is Accept and the caller has stored the
// payload, it calls Accept. A frame that could not be stored stays unacknowledged, so the peer
// sends it again. After each batch of frames, and at Deadline, the caller sends an acknowledgement
// if AckDue returns true.
type Receiver struct {
	cfg     *Config
	next    ethertype.Seq // all frames before it have been accepted
	top     ethertype.Seq // one past the highest that has been accepted
	ahead   int           // number of accepted frames after next: bits set in beyond
	beyond  *[aheadWords]uint64
	ackAt   int64 // when a delayed acknowledgement is due, or never
	pending int   // frames accepted since the last acknowledgement
	urgent  bool  // acknowledge at once
	held    bool  // the peer requested the acknowledgement, which waits for an answer
	talk    talk
	stats   ReceiverStats
}

// ReceiverStats are a Receiver's counters since Init.
type ReceiverStats struct {
	Accepted   uint64 // frames accepted
	Reordered  uint64 // accepted frames that did not arrive in order
	Duplicates uint64 // frames that had been accepted before
}

// Init prepares r for a connection whose first frame from the peer has the number first. A nil cfg
// means the defaults. Init panics if cfg.Validate would return an error. It reuses the memory of r.
func (r *Receiver) Init(cfg *Config, first ethertype.Seq) {
	mustBeValid(cfg)
	beyond := r.beyond
	if beyond != nil {
		clear(beyond[:])
	}
	*r = Receiver{cfg: cfg.Resolve(), next: first, top: first, beyond: beyond, ackAt: never, talk: talk{came: never}}
}

// Check returns whether to accept the frame seq. It changes nothing.
func (r *Receiver) Check(seq ethertype.Seq) Verdict {
	switch d := seq.Sub(r.next); {
	case d < 0:
		return Duplicate
	case d >= MaxWindow:
		return Ahead
	case r.ahead > 0 && r.beyond[seq/64%aheadWords]>>(seq%64)&1 != 0:
		return Duplicate
	}
	return Accept
}

// Accept records that the frame seq has been accepted. The last Check must have returned Accept for
// it. ackNow means that the frame carried FlagAckNow, and ends that it is the last frame of a message.
// In a conversation the acknowledgement of a single frame, or of the last frame of a message, waits for
// the answer even if ackNow is set; see AckHeld.
func (r *Receiver) Accept(now int64, seq ethertype.Seq, ackNow, ends bool) {
	r.stats.Accepted++
	r.pending++
	r.talk.came = min(r.talk.came, now)
	inOrder := seq == r.next && r.ahead == 0
	if inOrder {
		r.next++
		r.top = r.next
	} else {
		r.acceptBeyond(seq)
	}
	if !inOrder || r.pending >= r.cfg.AckEvery || ackNow && (r.pending > 1 && !ends || !r.talk.on()) {
		r.urgent = true
		return
	}
	r.held = r.held || ackNow
	if r.ackAt == never {
		r.ackAt = now + r.talk.delay(r.cfg)
	}
}

// acceptBeyond records a frame that opens a gap, follows one, or fills one.
func (r *Receiver) acceptBeyond(seq ethertype.Seq) {
	if r.beyond == nil {
		r.beyond = new([aheadWords]uint64)
	}
	if !seq.Less(r.top) {
		r.top = seq + 1
	}
	if seq != r.next {
		r.stats.Reordered++
		r.beyond[seq/64%aheadWords] |= 1 << (seq % 64)
		r.ahead++
		return
	}
	for r.next++; r.ahead > 0; r.next++ {
		word, bit := &r.beyond[r.next/64%aheadWords], uint64(1)<<(r.next%64)
		if *word&bit == 0 {
			break
		}
		*word &^= bit
		r.ahead--
	}
}

// Duplicate records the arrival of a frame for which Check returned Duplicate. The peer has
// probably missed an acknowledgement, so one is due at once.
func (r *Receiver) Duplicate() {
	r.stats.Duplicates++
	r.urgent = true
}

// Next returns the next expected sequence number: all frames before it have been accepted.
func (r *Receiver) Next() ethertype.Seq { return r.next }

// InWindow reports whether seq is plausible in a frame of the peer, as that frame's own number or
// as the number that the peer will use next. A plausible number is at most MaxWindow ahead of the
// expected number, or behind it. Other numbers belong to an earlier connection, or are guesses (RFC
// 5961).
func (r *Receiver) InWindow(seq ethertype.Seq) bool {
	d := seq.Sub(r.next)
	return -MaxWindow <= d && d <= MaxWindow
}

// Gap reports whether frames after the next expected one have been accepted.
func (r *Receiver) Gap() bool { return r.ahead > 0 }

// Ack returns the acknowledgement that every outgoing frame carries: the next expected sequence
// number, and a bitmap of the 64 numbers after it, where bit i stands for ack+1+i. Call AckSent
// after the frame has been sent.
func (r *Receiver) Ack() (ack ethertype.Seq, sack uint64) {
	if r.ahead == 0 {
		return r.next, 0
	}
	return r.next, window64(r.beyond[:], r.next+1)
}

// AppendSack appends the payload of a bare acknowledgement to b: the bits after those of Ack, as
// many as necessary, in big-endian 64-bit words with the least significant bit first. It appends
// between 0 and MaxSack bytes, and does not allocate if b has room for them.
func (r *Receiver) AppendSack(b []byte) []byte {
	if r.ahead == 0 {
		return b
	}
	for first := r.next + 65; first.Less(r.top); first += 64 {
		b = binary.BigEndian.AppendUint64(b, window64(r.beyond[:], first))
	}
	return b
}

// AckSent records that an outgoing frame, sent at now, carried the result of Ack. answers means
// that the frame is a sequenced one. If AckedBare returns true, now must be read from the clock;
// otherwise it may be slightly older.
func (r *Receiver) AckSent(now int64, answers bool) {
	if answers {
		r.talk.answered(now, r.cfg)
	} else if r.pending > 0 && !r.urgent {
		r.talk.inVain()
	}
	r.pending, r.urgent, r.held, r.ackAt = 0, false, false, never
}

// AckedBare reports whether a bare acknowledgement has acknowledged the last received frames, and
// this side has sent no sequenced frame since.
func (r *Receiver) AckedBare() bool { return r.pending == 0 && r.talk.came != never }

// AckHeld reports whether an acknowledgement that the peer has requested waits for an answer. It
// must be sent as soon as the program waits. No answer then follows before the peer sends again,
// and the peer may send only after it has the acknowledgement.
func (r *Receiver) AckHeld() bool { return r.held }

// AckDue reports whether an acknowledgement must be sent now, in a frame of its own if there is no
// other.
func (r *Receiver) AckDue(now int64) bool { return r.urgent || now >= r.ackAt }

// Deadline returns when AckDue will become true if nothing else happens: math.MinInt64 if it is
// true already, and math.MaxInt64 if there is nothing to acknowledge.
func (r *Receiver) Deadline() int64 {
	if r.urgent {
		return math.MinInt64
	}
	return r.ackAt
}

// Stats returns a snapshot of the counters.
func (r *Receiver) Stats() ReceiverStats { return r.stats }
