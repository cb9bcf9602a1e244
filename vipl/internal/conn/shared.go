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
	mtu         int    // of the interface now; at most info.MTU
	Mem         memory.Table

	now      int64 // the link's clock when it was last read
	batch    Batch
	unsent   []*Conn          // have frames in the batch that complete unreliable sends
	in       ethertype.Header // of the frame that is being received
	Long     longRx
	deferred int     // receives whose second half is; see deferredAck
	touched  []*Conn // have received something in this poll
	corked   []*Conn // have something to send when the caller polls next
	timers   timerSet
	FastPath uint64 // messages that have gone by the fast path
	stats    Counters
}

// Init initializes the state of a NIC of an incarnation, on the interface that info describes.
func (sh *Shared) Init(link Link, eng *progress.Engine, info *transport.Info, incarnation uint64, log *slog.Logger, hooks Hooks) {
	sh.incarnation = incarnation
	sh.link, sh.eng, sh.info, sh.log, sh.hooks = link, eng, info, log, hooks
	sh.mtu = info.MTU
	sh.now = link.Now()
	sh.Long.init(sh)
	sh.batch.Init(link, info.MTU, max(hooks.MTU(info.MAC)-ethertype.BaseSize, sh.Long.Size), &sh.stats.BatchStats, hooks.LinkError)
	sh.timers.init()
}

// Link is what connections need of a link.
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

// completeHanded completes the unreliable sends whose frames the link has taken.
func (sh *Shared) completeHanded() {
	for i, c := range sh.unsent {
		sh.unsent[i] = nil
		c.marks.unsent = false
		c.tx.completeHanded()
	}
	sh.unsent = sh.unsent[:0]
}

// slot returns the next free slot of the batch, flushing it when it is full; nil
// when the link takes no more now. The slot is only occupied by Add.
func (sh *Shared) slot() []byte {
	if sh.Full() {
		return nil
	}
	return sh.batch.Slot()
}

// Full reports whether the link takes no more frames now, after a flush if it has to be.
func (sh *Shared) Full() bool { return sh.batch.Enough() && sh.flushFull() }

// flushFull offers the batch to the link, and reports whether the link has taken nothing of a
// full one.
func (sh *Shared) flushFull() bool {
	sh.Flush()
	return sh.batch.Full()
}

// Discard flushes the batch and forgets what the link does not take, so that no frame
// refers to memory that is about to be the caller's alone.
func (sh *Shared) Discard() {
	if sh.Flush(); sh.batch.Len() > 0 {
		sh.batch.Discard()
		sh.Flush()
	}
}

// Unsent returns how many frames the link has not taken yet.
func (sh *Shared) Unsent() int { return sh.batch.Unsent() }

// SweepFrom has the sweep go on from now.
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
	sh.batch.Add(slot[:ethertype.HeaderSize+k], append(sh.batch.Body(), padding[:size-k]))
}

// SetClock begins a poll at now. It first finishes the receives of the last poll.
func (sh *Shared) SetClock(now int64) {
	sh.now = now
	sh.FinishReceives()
}

// RunTimers does what is due.
func (sh *Shared) RunTimers() {
	if sh.now >= sh.timers.next {
		sh.runTimers()
	}
}

// Settle finishes the receives of a poll, unless their second half may wait; see deferredAck.
func (sh *Shared) Settle() {
	switch n := len(sh.touched); {
	case n == sh.deferred: // the caller goes first, or there is nothing to do
	case sh.deferred > 0:
		sh.finishReceives()
	default:
		sh.settle()
	}
}

// Now returns the link's clock as it was last read.
func (sh *Shared) Now() int64 { return sh.now }

// ReadClock reads the link's clock.
func (sh *Shared) ReadClock() { sh.now = sh.link.Now() }

// Incarnation returns that of the NIC.
func (sh *Shared) Incarnation() uint64 { return sh.incarnation }

// MTU returns the MTU that the interface has now.
func (sh *Shared) MTU() int { return sh.mtu }

// SetMTU notes that the interface has another MTU.
func (sh *Shared) SetMTU(mtu int) { sh.mtu = mtu }

// Incoming returns room for the header of the frame that is being received.
func (sh *Shared) Incoming() *ethertype.Header { return &sh.in }

// Counters returns the counters, which go on counting.
func (sh *Shared) Counters() *Counters { return &sh.stats }

// CountFailure counts a connection that this side has ended because of an error.
func (sh *Shared) CountFailure() { sh.stats.Failures++ }

// CountJoined counts a valid frame behind the first one of its Ethernet frame.
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
	RxJoined          uint64 // frames that have shared an Ethernet frame with one before them, and are not in RxFrames
	Dropped           drops.Counts
	CQOverruns        uint64 // completion queue entries lost
	Failures          uint64 // connections that this side ended because of an error
}

// Corked returns how many connections have something to send when the caller polls next.
func (sh *Shared) Corked() int { return len(sh.corked) }

// Running returns how many connections have a timer.
func (sh *Shared) Running() int { return len(sh.timers.conns) }
