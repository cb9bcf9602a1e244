package conn

import (
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/transport"
)

const (
	batchMax  = 32              // frames a batch holds
	inlineMax = 4096            // bytes of payload that a slot can hold behind the header
	copyMax   = 256             // data of a frame up to this size are copied behind the header; longer ones are gathered from where they lie
	bodyParts = 2 * MaxSegments // of a frame's body: of one descriptor, or of many messages that share the frame
)

// burstBytes bounds what goes to the link at a time, as the window is bounded, to what
// stays in a processor's cache.
const (
	burstBytes = 256 << 10
	burstMin   = 4 // frames
)

// Burst is how many frames of an MTU a batch holds, or a poll takes in.
func Burst(mtu int) int { return max(burstBytes/mtu, burstMin) }

// txBatch collects frames until they go to the link in one call. Each frame
// has a slot for its header and, if small, its payload; larger payloads stay
// in the user's memory and are only referred to. The slots are reused after
// every flush.
type txBatch struct {
	frames [batchMax]transport.Frame
	bodies [batchMax][bodyParts][]byte
	slots  []byte
	stride int
	limit  int // frames in a batch, at most batchMax
	first  int // frames before it have been taken by the link
	n      int // frames in the batch
	bytes  int // in them
	unsent []*Conn
	stall
}

func (b *txBatch) init(maxData int) {
	b.stride = ethertype.HeaderSize + min(maxData, inlineMax)
	b.slots = make([]byte, batchMax*b.stride)
}

// inline returns how many payload bytes a slot can hold.
func (b *txBatch) inline() int { return b.stride - ethertype.HeaderSize }

// slot returns the next free slot, flushing the batch when it is full; nil
// when the link takes no more now. The slot is only occupied by add.
func (b *txBatch) slot(a *Adapter) []byte {
	if b.full(a) {
		return nil
	}
	return b.slots[b.n*b.stride : (b.n+1)*b.stride : (b.n+1)*b.stride]
}

// full reports whether slot would return nil, after a flush if it has to be.
func (b *txBatch) full(a *Adapter) bool {
	if b.n < b.limit && b.bytes < burstBytes {
		return false
	}
	b.flush(a)
	return b.n == b.limit
}

// body returns the scratch array for the next frame's body.
func (b *txBatch) body() [][]byte { return b.bodies[b.n][:0] }

// add appends a frame whose head is the slot that slot returned, and seals it.
func (b *txBatch) add(head []byte, body [][]byte) {
	ethertype.Seal(head, body...)
	b.frames[b.n] = transport.Frame{Head: head, Body: body}
	b.n++
	for _, part := range body {
		b.bytes += len(part)
	}
}

// flush offers the batch to the link. What the link does not take stays for
// the next flush.
func (b *txBatch) flush(a *Adapter) {
	if b.stuck && a.Now < b.again {
		return
	}
	for b.first < b.n {
		k, err := a.link.Send(b.frames[b.first:b.n])
		b.took(a, k)
		if err != nil {
			a.hooks.LinkError(err)
			a.Stats.TxDropped++ // the frame at fault; the rest goes on
			b.first++
			continue
		}
		if k == 0 && !b.refused(a) {
			a.timers.arm(a, b.retryAt(a.Now))
			return
		}
	}
	clear(b.frames[:min(b.n, batchMax)])
	b.first, b.n, b.bytes = 0, 0, 0
	for i, c := range b.unsent {
		b.unsent[i] = nil
		c.marks.unsent = false
		c.tx.completeHanded()
	}
	b.unsent = b.unsent[:0]
}

// took counts the first k frames, which the link has taken.
func (b *txBatch) took(a *Adapter, k int) {
	for i := range k {
		a.Stats.TxBytes += uint64(b.frames[b.first+i].Len())
	}
	a.Stats.TxFrames += uint64(k)
	if b.stuck && k > 0 {
		b.passes(b.frames[b.first : b.first+k])
	}
	b.first += k
}

// discard forgets the frames that refer to memory about to be given back.
func (b *txBatch) discard(a *Adapter) {
	a.Stats.TxDropped += uint64(b.n - b.first)
	b.first, b.again = b.n, 0
	b.flush(a)
}
