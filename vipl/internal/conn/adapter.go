package conn

import (
	"log/slog"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/progress"
	"github.com/bobnet-go/bobnet/transport"
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
	batch    txBatch
	In       ethertype.Header // of the frame that is being received
	Long     longRx
	Single   bool // the frame of this poll is the only one
	deferred deferredAck
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
	a.batch.init(max(hooks.MTU(info.MAC)-ethertype.BaseSize, a.Long.Size))
	a.batch.limit = min(Burst(info.MTU), batchMax)
	a.timers.init()
}

// Link is what an adapter needs of a link.
type Link interface {
	Send(frames []transport.Frame) (int, error)
	Now() int64
}

// Flush offers the batch to the link.
func (a *Adapter) Flush() { a.batch.flush(a) }

// Discard flushes the batch and forgets what the link does not take, so that no frame
// refers to memory that is about to be the caller's alone.
func (a *Adapter) Discard() {
	if a.batch.n > 0 {
		a.batch.flush(a)
		a.batch.discard(a)
	}
}

// Full reports whether the link takes no more frames now.
func (a *Adapter) Full() bool { return a.batch.full(a) }

// Unsent returns how many frames the link has not taken yet.
func (a *Adapter) Unsent() int { return a.batch.n - a.batch.first }

// SweepFrom has the sweep go on from now.
func (a *Adapter) SweepFrom(now int64) { a.timers.sweepFrom(now) }

// Pending reports whether there are frames in the batch.
func (a *Adapter) Pending() bool { return a.batch.n > 0 }

// SendPadded is SendControl with a payload of size bytes, which begins with id.
func (a *Adapter) SendPadded(h ethertype.Header, id []byte, size int) {
	slot := a.batch.slot(a)
	if slot == nil {
		a.Stats.TxDropped++
		return
	}
	h.Src, h.Type = a.info.MAC, a.info.EtherType
	h.Flags |= ethertype.FlagWholeCRC
	h.Size = uint16(size)
	h.Put(slot)
	k := copy(slot[ethertype.HeaderSize:], id)
	a.batch.add(slot[:ethertype.HeaderSize+k], append(a.batch.body(), padding[:size-k]))
}

// SetClock begins a poll at now, and does what the last one has put off.
func (a *Adapter) SetClock(now int64) {
	a.Now = now
	a.CatchUp()
}

// RunTimers does what is due.
func (a *Adapter) RunTimers() {
	if a.Now >= a.timers.next {
		a.runTimers()
	}
}

// Settle finishes what the frames of a poll began, unless the caller goes first: see
// deferredAck.
func (a *Adapter) Settle() {
	if a.deferred.conn == nil && len(a.touched) > 0 {
		a.settle()
	}
}

// FlushPending offers the batch to the link if there is anything in it.
func (a *Adapter) FlushPending() {
	if a.batch.n > 0 {
		a.batch.flush(a)
	}
}

// CountReceived counts a valid frame.
func (a *Adapter) CountReceived(size int) {
	a.Stats.RxFrames++
	a.Stats.RxBytes += uint64(size)
}

// Counters counts what an adapter has done.
type Counters struct {
	TxFrames, TxBytes uint64 // handed to the link, headers included
	RxFrames, RxBytes uint64 // valid frames from the link, headers included
	TxDropped         uint64 // frames that could not be handed to the link
	TxTooLong         uint64 // frames that the link refused again and again while others passed, or for 50 ms
	Dropped           DropCounts
	CQOverruns        uint64 // completion queue entries lost
	Failures          uint64 // connections that this side ended because of an error
}

// Corked returns how many connections have something to send when the caller polls next.
func (a *Adapter) Corked() int { return len(a.corked) }

// Running returns how many connections have a timer.
func (a *Adapter) Running() int { return len(a.timers.conns) }

// NextTimer returns when the next timer is due.
func (a *Adapter) NextTimer() int64 { return a.timers.next }
