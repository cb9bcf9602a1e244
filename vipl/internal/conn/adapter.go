package conn

import (
	"log/slog"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/progress"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/vipl/internal/code"
	"github.com/bobnet-go/bobnet/vipl/internal/memory"
)

// Adapter is the part of a NIC that its connections share: the batch of frames for the
// link, registered memory, what a poll leaves to be done, timers, counters. Its methods are
// called with the engine's lock held.
type Adapter struct {
	link        Link
	eng         *progress.Engine
	info        *transport.Info
	log         *slog.Logger
	hooks       Hooks
	Incarnation uint64 // of the NIC
	MTU         int    // of the interface now; at most info.MTU
	Mem         memory.Table

	Now      int64 // the link's clock when it was last read
	batch    Batch
	unsent   []*Conn          // have frames in the batch that complete unreliable sends
	In       ethertype.Header // of the frame that is being received
	Long     longRx
	deferred int     // receives whose second half is; see deferredAck
	touched  []*Conn // have received something in this poll
	corked   []*Conn // have something to send when the caller polls next
	timers   timerSet
	FastPath uint64 // messages that have gone by the fast path
	Stats    Counters
}

// Init makes an adapter of the interface that info describes.
func (a *Adapter) Init(link Link, eng *progress.Engine, info *transport.Info, log *slog.Logger, hooks Hooks) {
	a.link, a.eng, a.info, a.log, a.hooks = link, eng, info, log, hooks
	a.MTU = info.MTU
	a.Now = link.Now()
	a.Long.init(a)
	a.batch.Init(link, info.MTU, max(hooks.MTU(info.MAC)-ethertype.BaseSize, a.Long.Size), &a.Stats.BatchStats, hooks.LinkError)
	a.timers.init()
}

// Link is what an adapter needs of a link.
type Link interface {
	frameSink
	Now() int64
}

// Flush offers the batch to the link.
func (a *Adapter) Flush() {
	switch a.batch.Flush(a.Now) {
	case flushDone:
		if len(a.unsent) > 0 {
			a.completeHanded()
		}
	case flushRefused:
		a.timers.arm(a, a.batch.RetryAt(a.Now))
	}
}

// FlushPending offers the batch to the link if it holds frames.
func (a *Adapter) FlushPending() {
	if a.batch.Len() > 0 {
		a.Flush()
	}
}

// completeHanded completes the unreliable sends whose frames the link has taken.
func (a *Adapter) completeHanded() {
	for i, c := range a.unsent {
		a.unsent[i] = nil
		c.marks.unsent = false
		c.tx.completeHanded()
	}
	a.unsent = a.unsent[:0]
}

// slot returns the next free slot of the batch, flushing it when it is full; nil
// when the link takes no more now. The slot is only occupied by Add.
func (a *Adapter) slot() []byte {
	if a.Full() {
		return nil
	}
	return a.batch.Slot()
}

// Full reports whether the link takes no more frames now, after a flush if it has to be.
func (a *Adapter) Full() bool { return a.batch.Enough() && a.flushFull() }

// flushFull offers the batch to the link, and reports whether the link has taken nothing of a
// full one.
func (a *Adapter) flushFull() bool {
	a.Flush()
	return a.batch.Full()
}

// Discard flushes the batch and forgets what the link does not take, so that no frame
// refers to memory that is about to be the caller's alone.
func (a *Adapter) Discard() {
	if a.Flush(); a.batch.Len() > 0 {
		a.batch.Discard()
		a.Flush()
	}
}

// Unsent returns how many frames the link has not taken yet.
func (a *Adapter) Unsent() int { return a.batch.Unsent() }

// SweepFrom has the sweep go on from now.
func (a *Adapter) SweepFrom(now int64) { a.timers.sweepFrom(now) }

// Pending reports whether there are frames in the batch.
func (a *Adapter) Pending() bool { return a.batch.Len() > 0 }

// SendPadded is SendControl with a payload of size bytes, which begins with id.
func (a *Adapter) SendPadded(h ethertype.Header, id []byte, size int) {
	slot := a.slot()
	if slot == nil {
		a.Stats.TxDropped++
		return
	}
	h.Src, h.Type = a.info.MAC, a.info.EtherType
	h.Flags |= ethertype.FlagWholeCRC
	h.Size = uint16(size)
	h.Put(slot)
	k := copy(slot[ethertype.HeaderSize:], id)
	a.batch.Add(slot[:ethertype.HeaderSize+k], append(a.batch.Body(), padding[:size-k]))
}

// SetClock begins a poll at now. It first finishes the receives of the last poll.
func (a *Adapter) SetClock(now int64) {
	a.Now = now
	a.FinishReceives()
}

// RunTimers does what is due.
func (a *Adapter) RunTimers() {
	if a.Now >= a.timers.next {
		a.runTimers()
	}
}

// Settle finishes the receives of a poll, unless their second half may wait; see deferredAck.
func (a *Adapter) Settle() {
	switch n := len(a.touched); {
	case n == a.deferred: // the caller goes first, or there is nothing to do
	case a.deferred > 0:
		a.finishReceives()
	default:
		a.settle()
	}
}

// CountReceived counts a valid frame.
func (a *Adapter) CountReceived(size int) {
	a.Stats.RxFrames++
	a.Stats.RxBytes += uint64(size)
}

// Counters counts what an adapter has done.
type Counters struct {
	BatchStats
	RxFrames, RxBytes uint64 // valid frames from the link, headers included
	RxJoined          uint64 // frames that have shared an Ethernet frame with one before them, and are not in RxFrames
	Dropped           code.DropCounts
	CQOverruns        uint64 // completion queue entries lost
	Failures          uint64 // connections that this side ended because of an error
}

// Corked returns how many connections have something to send when the caller polls next.
func (a *Adapter) Corked() int { return len(a.corked) }

// Running returns how many connections have a timer.
func (a *Adapter) Running() int { return len(a.timers.conns) }

// NextTimer returns when the next timer is due.
func (a *Adapter) NextTimer() int64 { return a.timers.next }
