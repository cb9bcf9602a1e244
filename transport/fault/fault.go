// Package fault wraps a link and injects faults: it loses, duplicates, reorders, corrupts and
// delays frames, at random from a seed or by a script.
//
// It copies frames before it changes them, so the sender's memory is unchanged. Corruption affects
// the complete frame, including its checksum. A delayed frame is delivered by a later call of Send,
// Recv or Wait. Long frames (transport.LongLink) pass like all others if the wrapped link supports
// them. A sender that relies on a CRC over whole frames, because some are corrupted, must not send
// long frames.
package fault

import (
	"cmp"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bobnet-go/bobnet/internal/link/optional"
	"github.com/bobnet-go/bobnet/internal/link/wrap"
	"github.com/bobnet-go/bobnet/transport"
)

// retry is when Wait again offers frames for which the network had no room.
const retry = int64(50 * time.Microsecond)

// faulty is a link that applies Options to the frames of another link.
type faulty struct {
	base
	opts Options

	mu        sync.Mutex // around the inner Send and Recv, because Wait sends too
	tx, rx    *shaper    // nil: no faults in that direction
	batch     [transport.MaxBatch]transport.Frame
	views     [transport.MaxBatch][]byte
	lent      int  // frames of rx.ready whose views the caller has
	takesLong bool // Send takes long frames

	txNext, rxNext atomic.Int64 // when the next delayed frame is due; for Wait and Ready
	faults         atomic.Uint64
	full           atomic.Uint64 // times that the queue of delayed frames was full
	refused        atomic.Uint64 // frames that the inner link refuses
	lost           atomic.Uint64 // frames that arrived while the queue was full
	closed         atomic.Bool

	waits atomic.Bool   // a goroutine is in Wait
	woken atomic.Bool   // Wake was called since
	nudge atomic.Bool   // Send has made Wait look at txNext again
	own   atomic.Uint64 // inner wake-ups that were nudges
}

type base = wrap.Base

var (
	_ transport.LongLink = (*faulty)(nil)
	_ transport.Checker  = (*faulty)(nil)
	_ optional.Parking   = (*faulty)(nil)
)

// New returns a link that applies opts to the frames of link. The caller must not use link any
// more; Close closes it, too. Goroutines may share it as documented at transport.Link.
func New(link transport.Link, opts Options) transport.Link {
	l := &faulty{base: wrap.New(link, "fault"), opts: opts.withDefaults()}
	if l.opts.covers(Tx) {
		l.tx = newShaper(&l.opts, Tx)
	}
	if l.opts.covers(Rx) {
		l.rx = newShaper(&l.opts, Rx)
	}
	l.txNext.Store(transport.Forever)
	l.rxNext.Store(transport.Forever)
	return l
}

// Info implements transport.Link. A link whose frames may be corrupted is
// Unprotected.
func (l *faulty) Info() transport.Info {
	info := l.base.Info()
	info.Unprotected = info.Unprotected || l.opts.corrupts()
	return info
}

// Stats implements transport.Link. It returns the counters of the wrapped link, and Faults. A frame
// that this link drops as a fault is in Faults and in no other counter. A delayed frame that the
// wrapped link then refuses is in TxDrops. A frame that arrives while too many frames are delayed
// is in RxDrops.
func (l *faulty) Stats() transport.Stats {
	st := l.Link.Stats()
	st.Faults += l.faults.Load()
	st.TxFull += l.full.Load()
	st.TxDrops += l.refused.Load()
	st.RxDrops += l.lost.Load()
	st.Wakes -= min(st.Wakes, l.own.Load())
	return st
}

// Close implements transport.Link. It sends the delayed frames now, like frames on the wire, which
// arrive although their sender has ended.
func (l *faulty) Close() error {
	if l.closed.Swap(true) || l.tx == nil {
		return l.Link.Close()
	}
	l.mu.Lock()
	l.tx.release(transport.Forever)
	_ = l.flush(l.Link.Now()) // the caller of Close does not need the error
	l.mu.Unlock()
	return l.Link.Close()
}

// Send implements transport.Link. It accepts frames while fewer than maxQueued are delayed.
func (l *faulty) Send(frames []transport.Frame) (n int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tx == nil {
		return l.Link.Send(frames)
	}
	if l.closed.Load() {
		return 0, transport.ErrClosed
	}
	limit := l.limit()
	now := l.Link.Now()
	for i := range frames[:min(len(frames), transport.MaxBatch)] {
		f := &frames[i]
		if len(f.Body) > transport.MaxBody || f.Len() > limit {
			err = transport.ErrFrameSize
			break
		}
		if l.tx.full() {
			l.full.Add(1)
			break
		}
		l.tx.admit(f, now)
		n++
	}
	if flushErr := l.flush(now); err == nil {
		err = flushErr
	}
	if l.txNext.Load() != transport.Forever && l.waits.Load() {
		l.nudge.Store(true)
		l.own.Add(1)
		l.Link.Wake()
	}
	return n, err
}

// flush sends the frames that are due. It drops frames that the inner link refuses as too long,
// because the path carries less than Info reports: their sender may no longer wait for them. The
// caller must hold mu.
func (l *faulty) flush(now int64) (err error) {
	l.tx.release(now)
	for more := true; more && len(l.tx.ready) > 0; {
		k := min(len(l.tx.ready), len(l.batch))
		for i := range k {
			l.batch[i].Head = l.tx.ready[i].data
		}
		n, sendErr := l.Link.Send(l.batch[:k])
		clear(l.batch[:k])
		l.tx.removeReady(n)
		if more = n == k && sendErr == nil; n < k && errors.Is(sendErr, transport.ErrFrameSize) {
			l.tx.removeReady(1)
			l.refused.Add(1)
			more = true
		}
		err = cmp.Or(err, sendErr)
	}
	next := l.tx.next(0)
	if next <= now {
		next = now + retry
	}
	l.txNext.Store(next)
	l.countFaults()
	return err
}

// countFaults publishes the counts of the shapers. The caller must hold mu.
func (l *faulty) countFaults() {
	var n uint64
	for _, s := range []*shaper{l.tx, l.rx} {
		if s != nil {
			n += s.faults
			s.faults = 0
		}
	}
	if n > 0 {
		l.faults.Add(n)
	}
}

// Recv implements transport.Link.
func (l *faulty) Recv(views [][]byte) (n int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.Link.Now()
	if l.tx != nil && l.txNext.Load() <= now {
		_ = l.flush(now) // the next Send returns the error
	}
	if l.rx == nil {
		return l.Link.Recv(views)
	}
	l.rx.removeReady(l.lent)
	l.lent = 0
	wrap.Long(&l.base).Return()
	if err := l.pull(now); err != nil {
		return 0, err
	}
	l.rx.release(now)
	n = l.lend(views)
	l.lent = n
	l.rxNext.Store(l.rx.next(n))
	l.countFaults()
	return n, nil
}

// pull admits arrived frames: one call of Recv, unless there are enough for the caller already. If
// all delayed frames must wait and there is no room, arriving frames are lost. If they stayed in
// the wrapped link, every Wait would return at once. The caller must hold mu.
func (l *faulty) pull(now int64) error {
	l.rx.release(now)
	if l.rx.inside()+2*len(l.views) > maxQueued && len(l.rx.ready) > 0 {
		return nil
	}
	k, err := l.Link.Recv(l.views[:])
	for i := range k {
		if l.rx.full() {
			l.lost.Add(uint64(k - i))
			break
		}
		frame := l.views[i]
		if i == k-1 {
			frame = wrap.Long(&l.base).Take(frame)
		}
		if frame == nil {
			l.lost.Add(1)
			continue
		}
		l.rx.admit(&transport.Frame{Head: frame}, now)
	}
	return err
}
