package reliability

import (
	"encoding/binary"
	"math"

	"github.com/bobnet-go/bobnet/ethertype"
)

// never is a deadline that does not come.
const never int64 = math.MaxInt64

// MaxSack is the most bytes that Receiver.AppendSack appends.
const MaxSack = (MaxWindow - 64) / 8

// aheadWords is the size of a Receiver's bitmap. It has one bit for each frame
// that may be accepted beyond the next expected, in a ring indexed by sequence number.
const aheadWords = MaxWindow / 64

// Receiver decides what to do with the sequenced frames of one connection and
// says what to acknowledge and when. The zero Receiver needs Init. It must not
// be used by two goroutines at a time.
//
// For each frame the caller asks Check, and when the verdict is Accept and it
// could place the payload, calls Accept. A frame that was not placed stays
// unacknowledged, so that the peer sends it again. After each batch of frames,
// and at Deadline, it sends an acknowledgement if AckDue says so.
type Receiver struct {
	cfg     *Config
	next    ethertype.Seq // all frames before it have been accepted
	top     ethertype.Seq // one past the highest that has been accepted
	ahead   int           // how many beyond next have been accepted: bits set in beyond
	beyond  *[aheadWords]uint64
	ackAt   int64 // when a delayed acknowledgement is due, or never
	pending int   // frames accepted since the last acknowledgement
	urgent  bool  // acknowledge at once
	held    bool  // the peer has asked for the acknowledgement, which waits for an answer
	talk    talk
	stats   ReceiverStats
}

// ReceiverStats counts what a Receiver has seen since Init.
type ReceiverStats struct {
	Accepted   uint64 // frames taken
	Reordered  uint64 // of these, frames that did not arrive in order
	Duplicates uint64 // frames that had been taken before
}

// Init makes r ready for a connection whose first frame from the peer has the
// number first. A nil cfg means the defaults. Init panics when
// cfg.Validate would return an error. It keeps the memory that r has.
func (r *Receiver) Init(cfg *Config, first ethertype.Seq) {
	mustBeValid(cfg)
	beyond := r.beyond
	if beyond != nil {
		clear(beyond[:])
	}
	*r = Receiver{cfg: cfg.Resolve(), next: first, top: first, beyond: beyond, ackAt: never, talk: talk{came: never}}
}

// Check says whether the frame seq is to be taken. It changes nothing.
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

// Accept records that the frame seq, of which Check said Accept at last, has
// been taken. ackNow is whether it carried FlagAckNow. In a talk the acknowledgement of a
// frame that comes alone waits for the answer even so; see AckHeld.
func (r *Receiver) Accept(now int64, seq ethertype.Seq, ackNow bool) {
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
	if !inOrder || r.pending >= r.cfg.AckEvery || ackNow && (r.pending > 1 || !r.talk.on()) {
		r.urgent = true
		return
	}
	r.held = r.held || ackNow
	if r.ackAt == never {
		r.ackAt = now + r.talk.delay(r.cfg)
	}
}

// acceptBeyond records a frame that makes a gap, comes after one, or fills one.
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

// Duplicate records that a frame arrived of which Check said Duplicate. The
// peer seems to have missed an acknowledgement, so one is due at once.
func (r *Receiver) Duplicate() {
	r.stats.Duplicates++
	r.urgent = true
}

// Next returns the next sequence number expected: all frames before it have been
// accepted.
func (r *Receiver) Next() ethertype.Seq { return r.next }

// InWindow reports whether seq may be in a frame of the peer's, as that frame's own
// number or as the number that the peer will use next: it is at most MaxWindow ahead of
// the number expected, or behind it. Other numbers are of an earlier connection, or
// guesses (RFC 5961).
func (r *Receiver) InWindow(seq ethertype.Seq) bool {
	d := seq.Sub(r.next)
	return -MaxWindow <= d && d <= MaxWindow
}

// Gap reports whether frames beyond the next expected have been accepted.
func (r *Receiver) Gap() bool { return r.ahead > 0 }

// Ack returns what every outgoing frame carries: the next sequence number
// expected, and the bitmap of the 64 behind it, bit i standing for ack+1+i.
// Call AckSent when the frame has gone.
func (r *Receiver) Ack() (ack ethertype.Seq, sack uint64) {
	if r.ahead == 0 {
		return r.next, 0
	}
	return r.next, window64(r.beyond[:], r.next+1)
}

// AppendSack appends the payload of a bare acknowledgement to b: the bits that
// follow those of Ack, in big-endian words of 64 of which the least
// significant bit comes first, as many as needed. It appends nothing, and at
// most MaxSack bytes, and does not allocate when b has room for that.
func (r *Receiver) AppendSack(b []byte) []byte {
	if r.ahead == 0 {
		return b
	}
	for first := r.next + 65; first.Less(r.top); first += 64 {
		b = binary.BigEndian.AppendUint64(b, window64(r.beyond[:], first))
	}
	return b
}

// AckSent records that an outgoing frame, sent at now, carried what Ack returned. answers is
// whether it is a sequenced one. If AckedBare reports true, now has to be read from the clock;
// else it may be a little older.
func (r *Receiver) AckSent(now int64, answers bool) {
	if answers {
		r.talk.answered(now, r.cfg)
	} else if r.pending > 0 && !r.urgent {
		r.talk.inVain()
	}
	r.pending, r.urgent, r.held, r.ackAt = 0, false, false, never
}

// AckedBare reports whether frames have been acknowledged by a frame of its own, and none has
// answered them since.
func (r *Receiver) AckedBare() bool { return r.pending == 0 && r.talk.came != never }

// AckHeld reports whether an acknowledgement for which the peer has asked waits for an answer.
// It must go as soon as the program waits: no answer comes then before the peer sends again, and
// the peer may send again only when it has the acknowledgement.
func (r *Receiver) AckHeld() bool { return r.held }

// AckDue reports whether an acknowledgement must go now, on its own if nothing
// else is going.
func (r *Receiver) AckDue(now int64) bool { return r.urgent || now >= r.ackAt }

// Deadline returns when AckDue will become true if nothing happens before:
// math.MinInt64 when it is, math.MaxInt64 when there is nothing to acknowledge.
func (r *Receiver) Deadline() int64 {
	if r.urgent {
		return math.MinInt64
	}
	return r.ackAt
}

// Stats returns a snapshot of the counters.
func (r *Receiver) Stats() ReceiverStats { return r.stats }
