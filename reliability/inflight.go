package reliability

import (
	"math"

	"github.com/bobnet-go/bobnet/ethertype"
)

// Sent describes a sequenced frame, so that the caller can build it again from its descriptors. The
// Sender stores it and does not interpret it.
type Sent struct {
	First  ethertype.Seq // number of the send descriptor that the frame starts in
	Offset uint32        // where the frame starts in that descriptor's message, in bytes
	Size   uint32        // data bytes
	Count  uint16        // messages if packed; otherwise 1
	Flags  uint16        // defined by the caller
}

// The states of a frame in the ring.
const (
	stateOut   uint8 = iota // sent and considered in flight, in Sender.out
	stateLost               // considered lost, to be retransmitted, in Sender.lost
	stateAcked              // acknowledged selectively, in no queue
)

// frame is one slot of the ring.
type frame struct {
	Sent
	order      uint32 // number among all transmissions
	prev, next uint16 // neighbours in its queue: sequence numbers modulo 2^16
	sentAt     int64  // time of the last transmission
	waited     uint32 // from the first to the last transmission, in units of waitUnit
	state      uint8
	resent     bool // sent more than once
}

// waitUnit is in nanoseconds. It makes 32 bits last for more than three days.
const waitUnit = 1 << 16

// wait records that the frame is retransmitted at now.
func (f *frame) wait(now int64) {
	f.waited = uint32(min(int64(f.waited)+(max(now-f.sentAt, 0)+waitUnit/2)/waitUnit, math.MaxUint32))
}

// ring holds the frames from the lowest unacknowledged to the highest sent, indexed by sequence
// number. Its size is a power of two. It doubles when necessary and never shrinks, so a busy
// connection does not allocate.
type ring struct {
	slots []frame
	acked []uint64 // bit seq%len(slots): the frame is in stateAcked
}

const minRing = 64 // one word of acked

func (r *ring) at(seq ethertype.Seq) *frame { return &r.slots[int(seq)&(len(r.slots)-1)] }

func (r *ring) setAcked(seq ethertype.Seq) {
	r.acked[int(seq/64)&(len(r.acked)-1)] |= 1 << (seq % 64)
}

func (r *ring) clearAcked(seq ethertype.Seq) {
	r.acked[int(seq/64)&(len(r.acked)-1)] &^= 1 << (seq % 64)
}

// grow doubles the full ring, whose frames begin with una.
func (r *ring) grow(una ethertype.Seq) {
	old := *r
	size := max(2*len(old.slots), minRing)
	if size > MaxWindow {
		panic("reliability: Push of a frame that Room did not allow")
	}
	r.slots = make([]frame, size)
	r.acked = make([]uint64, size/64)
	for i := range old.slots {
		seq := una + ethertype.Seq(i)
		*r.at(seq) = *old.at(seq)
		if r.at(seq).state == stateAcked {
			r.setAcked(seq)
		}
	}
}

// queue is a doubly linked list of frames in the ring. The links are sequence numbers modulo 2^16,
// which identify a frame for every ring size.
type queue struct{ head, tail, n uint16 }

func (q *queue) push(r *ring, seq ethertype.Seq) {
	s := uint16(seq)
	if q.n == 0 {
		q.head = s
	} else {
		r.at(ethertype.Seq(q.tail)).next = s
		r.at(seq).prev = q.tail
	}
	q.tail = s
	q.n++
}

func (q *queue) remove(r *ring, seq ethertype.Seq) {
	f := r.at(seq)
	switch uint16(seq) {
	case q.head:
		q.head = f.next
	case q.tail:
		q.tail = f.prev
	default:
		r.at(ethertype.Seq(f.prev)).next = f.next
		r.at(ethertype.Seq(f.next)).prev = f.prev
	}
	q.n--
}
