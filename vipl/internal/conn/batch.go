package conn

import (
	"sync/atomic"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/transport"
)

// The limits of a batch and of its frames.
const (
	batchMax  = 32   // frames in a batch
	copyMax   = 256  // longer data are gathered from the program's memory; shorter data are copied behind the header
	bodyParts = 32   // parts of a frame's body: of one descriptor, or of many messages that share the frame
	inlineMax = 4096 // payload bytes that a slot can hold behind the header
)

// burstBytes bounds the bytes that go to the link in one call, so that they stay in a processor's
// cache. The window has the same bound.
const (
	burstBytes = 256 << 10
	burstMin   = 4 // frames
)

// Burst returns how many frames of an MTU a batch holds, or a poll receives.
func Burst(mtu int) int { return max(burstBytes/mtu, burstMin) }

// frameSink is the part of a link that a batch uses.
type frameSink interface {
	Send(frames []transport.Frame) (int, error)
}

// BatchStats counts the frames of a batch.
type BatchStats struct {
	TxFrames, TxBytes uint64 // accepted by the link, headers included
	TxDropped         uint64 // frames that the link did not accept
	TxJoined          uint64 // frames behind the first one of an Ethernet frame; not in TxFrames
	TxTooLong         uint64 // frames that the link refused repeatedly while it accepted others, or for 50 ms
}

// Batch collects frames until one call hands them to the link. Each frame has a slot for its
// header and, if small, its payload. Larger payloads stay in the user's memory and are only
// referred to. The slots are reused after every flush. If the link takes no frame, the batch
// decides whether the queue is full or the frame can never pass; see stall.
type Batch struct {
	link   frameSink
	failed func(err error)
	stats  *BatchStats
	frames [batchMax]transport.Frame
	bodies [batchMax][bodyParts][]byte
	slots  []byte
	stride int
	limit  int // frames in a batch, at most batchMax
	first  int // index of the first frame that the link has not accepted
	n      int // frames in the batch
	bytes  int // bytes of these frames
	joint  joint
	stall
}

// Init initializes a batch for a link with an MTU, whose frames hold maxData bytes behind the
// header. The batch reports errors of the link to failed.
func (b *Batch) Init(link frameSink, mtu, maxData int, stats *BatchStats, failed func(err error)) {
	b.link, b.stats, b.failed = link, stats, failed
	b.limit = min(Burst(mtu), batchMax)
	b.stride = ethertype.HeaderSize + min(maxData, inlineMax)
	b.slots = make([]byte, batchMax*b.stride)
}

// Inline returns how many payload bytes a slot can hold.
func (b *Batch) Inline() int { return b.stride - ethertype.HeaderSize }

// Len returns how many frames are in the batch.
func (b *Batch) Len() int { return b.n }

// Unsent returns how many of these frames the link has not accepted.
func (b *Batch) Unsent() int { return b.n - b.first }

// Full reports whether there is no free slot, because the link accepts no frames now.
func (b *Batch) Full() bool { return b.n == b.limit }

// Enough reports whether the batch must be flushed before another frame is added.
func (b *Batch) Enough() bool { return b.n >= b.limit || b.bytes >= burstBytes }

// Slot returns the next free slot. The batch must not be full. The slot stays free until Add.
func (b *Batch) Slot() []byte {
	return b.slots[b.n*b.stride : (b.n+1)*b.stride : (b.n+1)*b.stride]
}

// Body returns the scratch array for the next frame's body.
func (b *Batch) Body() [][]byte { return b.bodies[b.n][:0] }

// Add appends a frame whose head is the slot that Slot returned, and seals it. mark is the frame's Mark,
// or nil.
func (b *Batch) Add(head []byte, body [][]byte, mark *atomic.Uint64) {
	ethertype.Seal(head, body...)
	f := &b.frames[b.n]
	f.Head, f.Body, f.Mark = head, body, mark
	b.n++
	b.joint.peer = 0
	for _, part := range body {
		b.bytes += len(part)
	}
}

// AddFirst is AddShared for the first frame of a batch. Short frames of connections with the same NIC may then share
// its Ethernet frame.
func (b *Batch) AddFirst(j *joining, head []byte) {
	ethertype.Seal(head)
	f := &b.frames[0]
	f.Head, f.Body, f.Mark = head, nil, nil
	b.n, b.joint = 1, joint{peer: j.peer()}
}

// TakeBack removes the latest frame from the batch, and returns its bytes in room.
func (b *Batch) TakeBack(room []byte) []byte {
	b.n--
	b.joint.peer = 0
	f := &b.frames[b.n]
	for _, part := range f.Body {
		b.bytes -= len(part)
	}
	room = f.AppendTo(room[:0])
	*f = transport.Frame{}
	return room
}

// flushResult is the result of a flush.
type flushResult uint8

// The results.
const (
	flushDone    flushResult = iota // the link has accepted all frames
	flushRefused                    // the link accepts no more; RetryAt returns when to try again
	flushWaits                      // it is too early to try again
)

// Flush offers the batch to the link. Frames that the link does not accept stay for the next flush.
func (b *Batch) Flush(now int64) flushResult {
	if b.stuck && now < b.again {
		return flushWaits
	}
	for b.first < b.n {
		rest := b.frames[b.first:b.n]
		k, err := b.link.Send(rest)
		for i := range rest[:k] {
			b.stats.TxBytes += uint64(rest[i].Len())
		}
		b.stats.TxFrames += uint64(k)
		b.first += k
		if b.stuck && k > 0 {
			b.passes(rest[:k])
		}
		if err != nil {
			b.failed(err)
			b.stats.TxDropped++ // the failing frame; the rest continues
			b.first++
			continue
		}
		if k == 0 && !b.refused(now) {
			return flushRefused
		}
	}
	b.first, b.n, b.bytes = 0, 0, 0
	return flushDone
}

// Discard drops the frames that the link has not accepted, because they refer to memory that is
// about to be returned to the program. The next flush empties the batch.
func (b *Batch) Discard() {
	b.stats.TxDropped += uint64(b.n - b.first)
	b.first, b.again = b.n, 0
}
