package conn

import (
	"log/slog"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/drops"
	"github.com/bobnet-go/bobnet/internal/progress"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/vipl/internal/memory"
)

// Shared is the state that the connections of a NIC share: the clock, the batch of frames for the
// link, registered memory, connections with something left to do, timers, counters. The caller of
// its methods must hold the engine's lock.
type Shared struct {
	link        Link
	eng         *progress.Engine
	info        *transport.Info
	log         *slog.Logger
	hooks       Hooks
	incarnation uint64 // of the NIC
	mtu         int    // current MTU of the interface; at most info.MTU
	Mem         memory.Table

	now      int64 // last reading of the link's clock
	batch    Batch
	unsent   []*Conn          // connections whose unreliable sends complete with frames in the batch
	in       ethertype.Header // of the current received frame
	Long     longRx
	deferred int     // deferred second halves; see deferredAck
	touched  []*Conn // connections that received a frame in this poll
	corked   []*Conn // connections with something to send at the program's next poll
	timers   timerSet
	FastPath uint64 // messages on the fast path
	stats    Counters
}

// Init initializes the state of a NIC with an incarnation, on the interface that info describes.
func (sh *Shared) Init(link Link, eng *progress.Engine, info *transport.Info, incarnation uint64, log *slog.Logger, hooks Hooks) {
	sh.incarnation = incarnation
	sh.link, sh.eng, sh.info, sh.log, sh.hooks = link, eng, info, log, hooks
	sh.mtu = info.MTU
	sh.now = link.Now()
	sh.Long.init(sh)
	sh.batch.Init(link, info.MTU, max(hooks.MTU(info.MAC)-ethertype.BaseSize, sh.Long.Size), &sh.stats.BatchStats, hooks.LinkError)
	sh.timers.init()
}

// Link is the part of a link that connections use.
type Link interface {
	frameSink
	Now() int64
}

// Flush offers the batch to the link.
func (sh *Shared) Flush() {
	switch sh.batch.Flush(sh.now) {
	case flushDone:
		if len(sh.unsent) > 0 {
			sh.completeHanded()
		}
	case flushRefused:
		sh.timers.arm(sh, sh.batch.RetryAt(sh.now))
	}
}

// FlushPending offers the batch to the link if it holds frames.
func (sh *Shared) FlushPending() {
	if sh.batch.Len() > 0 {
		sh.Flush()
	}
}

// completeHanded completes the unreliable sends whose frames the link has accepted.
func (sh *Shared) completeHanded() {
	for i, c := range sh.unsent {
		sh.unsent[i] = nil
		c.marks.unsent = false
		c.tx.completeHanded()
	}
	sh.unsent = sh.unsent[:0]
}

// slot returns the next free slot of the batch. It flushes a full batch, and returns nil if the
// link accepts no more now. The slot stays free until Add.
func (sh *Shared) slot() []byte {
	if sh.Full() {
		return nil
	}
	return sh.batch.Slot()
}

// Full reports whether the link accepts no more frames now. It flushes if necessary.
func (sh *Shared) Full() bool { return sh.batch.Enough() && sh.flushFull() }

// flushFull offers a full batch to the link, and reports whether the link has accepted nothing.
func (sh *Shared) flushFull() bool {
	sh.Flush()
	return sh.batch.Full()
}

// Discard flushes the batch and drops what the link does not accept, so that no frame refers to
// memory that is about to return to the program.
func (sh *Shared) Discard() {
	if sh.Flush(); sh.batch.Len() > 0 {
		sh.batch.Discard()
		sh.Flush()
	}
}

// Unsent returns how many frames the link has not accepted yet.
func (sh *Shared) Unsent() int { return sh.batch.Unsent() }

// SweepFrom makes the sweep continue from now.
func (sh *Shared) SweepFrom(now int64) { sh.timers.sweepFrom(now) }

// Pending reports whether there are frames in the batch.
func (sh *Shared) Pending() bool { return sh.batch.Len() > 0 }

// SendPadded is SendControl with a payload of size bytes, which begins with id.
func (sh *Shared) SendPadded(h ethertype.Header, id []byte, size int) {
	slot := sh.slot()
	if slot == nil {
		sh.stats.TxDropped++
		return
	}
	h.Src, h.Type = sh.info.MAC, sh.info.EtherType
	h.Flags |= ethertype.FlagWholeCRC
	h.Size = uint16(size)
	h.Put(slot)
	k := copy(slot[ethertype.HeaderSize:], id)
	sh.batch.Add(slot[:ethertype.HeaderSize+k], append(sh.batch.Body(), padding[:size-k]), nil)
}

// SetClock begins a poll at now. It first runs the second halves that the last poll deferred.
func (sh *Shared) SetClock(now int64) {
	sh.now = now
	sh.FinishReceives()
}

// RunTimers runs the timers that are due.
func (sh *Shared) RunTimers() {
	if sh.now >= sh.timers.next {
		sh.runTimers()
	}
}

// Settle runs the second half of the receives of a poll, or defers it; see deferredAck.
func (sh *Shared) Settle() {
	switch n := len(sh.touched); {
	case n == sh.deferred: // the caller goes first, or there is nothing to do
	case sh.deferred > 0:
		sh.finishReceives()
	default:
		sh.settle()
	}
}

// Now returns the last reading of the link's clock.
func (sh *Shared) Now() int64 { return sh.now }

// ReadClock reads the link's clock.
func (sh *Shared) ReadClock() { sh.now = sh.link.Now() }

// Incarnation returns the incarnation of the NIC.
func (sh *Shared) Incarnation() uint64 { return sh.incarnation }

// MTU returns the current MTU of the interface.
func (sh *Shared) MTU() int { return sh.mtu }

// SetMTU records a change of the interface's MTU.
func (sh *Shared) SetMTU(mtu int) { sh.mtu = mtu }

// Incoming returns the buffer for the header of the current received frame.
func (sh *Shared) Incoming() *ethertype.Header { return &sh.in }

// Counters returns the live counters.
func (sh *Shared) Counters() *Counters { return &sh.stats }

// CountFailure counts a connection that this side has ended because of an error.
func (sh *Shared) CountFailure() { sh.stats.Failures++ }

// CountJoined counts a valid frame that is not the first one of its Ethernet frame.
func (sh *Shared) CountJoined() { sh.stats.RxJoined++ }

// CountReceived counts a valid frame.
func (sh *Shared) CountReceived(size int) {
	sh.stats.RxFrames++
	sh.stats.RxBytes += uint64(size)
}

// Counters counts frames and failures of a NIC.
type Counters struct {
	BatchStats
	RxFrames, RxBytes uint64 // valid frames from the link, headers included
	RxJoined          uint64 // frames that are not the first one of their Ethernet frame; not in RxFrames
	Dropped           drops.Counts
	CQOverruns        uint64 // completion queue entries lost
	Failures          uint64 // connections that this side ended because of an error
	LongStarts        uint64 // times that the link began to receive long frames
}

// Corked returns how many connections have something to send at the next poll.
func (sh *Shared) Corked() int { return len(sh.corked) }

// Running returns how many connections have a timer.
func (sh *Shared) Running() int { return len(sh.timers.conns) }
