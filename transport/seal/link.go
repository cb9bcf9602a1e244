package seal

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/internal/link/optional"
	"github.com/bobnet-go/bobnet/internal/link/wrap"
	"github.com/bobnet-go/bobnet/transport"
)

type base = wrap.Base

// Link is a transport.Link whose frames are sealed. Goroutines may share it as documented at
// transport.Link.
type Link struct {
	base
	m     *machine
	rest  restRx
	mtu   int // of the wrapped link
	limit int // bytes of its longest frame, including long frames

	tx      []byte // buffer for the sealed frames of one call; allocated by the first
	batch   [transport.MaxBatch]transport.Frame
	index   [transport.MaxBatch]int // index of each frame of batch in the caller's frames
	rx      []byte                  // buffer for received frames; allocated by the first call
	slot    int                     // bytes of rx for a frame
	slots   int                     // frames that fit rx
	longRx  []byte                  // buffer for a long frame
	applied *[]Key

	next    atomic.Int64 // when tick must run next; for Wait and Ready
	valid   atomic.Pointer[[]Key]
	waits   atomic.Bool   // a goroutine is in Wait
	nudges  atomic.Uint64 // wake-ups of the wrapped link that the link made for itself
	closed  atomic.Bool
	stopped atomic.Bool // reload.stop was called
	reload  reload
}

// watched is a Link whose wrapped link implements optional.Watcher.
type watched struct{ *Link }

// Watch implements optional.Watcher.
func (w watched) Watch(fd int) { w.Link.Link.(optional.Watcher).Watch(fd) }

// Overhead returns 0, because the Link that watched wraps reports the whole overhead.
func (w watched) Overhead() int { return 0 }

// Unwrap implements transport.Wrapper.
func (w watched) Unwrap() transport.Link { return w.Link }

var (
	_ transport.LongLink = (*Link)(nil)
	_ transport.Checker  = (*Link)(nil)
	_ optional.Parking   = (*Link)(nil)
	_ optional.Watcher   = watched{}
)

// New returns a link that seals the frames of link. The caller must not use link any more; Close
// closes it, too. If there is no usable key, the error wraps ErrKey and link is unchanged. New
// refuses a link within one host, because there are no strangers, and a link that joins shared
// memory, whose frames would bypass the seal.
func New(link transport.Link, opts Options) (transport.Link, error) {
	info := link.Info()
	if _, local := link.(optional.Local); local || info.SameHost {
		return nil, fmt.Errorf("seal: link %s reaches stations of this host through memory, which is not sealed: seal the link below it", info.Driver)
	}
	if info.MTU <= ethertype.MinMTU+framing.SealOverhead {
		return nil, fmt.Errorf("%w: sealed frames do not fit an MTU of %d", transport.ErrFrameSize, info.MTU)
	}
	if opts.Keys == nil {
		return nil, fmt.Errorf("%w: Options.Keys is nil", ErrKey)
	}
	valid, err := ask(opts.Keys)
	if err != nil {
		return nil, err
	}
	l := &Link{base: wrap.New(link, "seal"), mtu: info.MTU, limit: info.MTU + ethertype.EthernetSize, applied: &valid}
	if l.m, err = newMachine(info, opts, randomOf(opts.Random), valid, link.Now()); err != nil {
		return nil, err
	}
	l.valid.Store(&valid)
	l.next.Store(transport.Forever)
	l.reload.start(l, info.Virtual)
	if _, ok := link.(optional.Watcher); ok {
		return watched{l}, nil
	}
	return l, nil
}

// Info implements transport.Link. The MTU is smaller by the overhead of sealing, and Unprotected is
// false.
func (l *Link) Info() transport.Info {
	info := l.base.Info()
	info.MTU -= framing.SealOverhead
	info.Unprotected = false
	return info
}

// Overhead returns how many bytes longer frames are on the wrapped link.
func (l *Link) Overhead() int { return framing.SealOverhead + framing.SealLongMore }

// Close implements transport.Link.
func (l *Link) Close() error {
	l.closed.Store(true)
	l.reload.stop()
	return l.Link.Close()
}

// SealStats returns a snapshot of the counters that Stats lacks. Any goroutine may call it at any
// time.
func (l *Link) SealStats() Stats { return l.m.count.stats() }

// Hint returns why frames from or to a station are lost, or "" if nothing is known. Any station on
// the segment could have caused the reason, so it is only for display. It must not run at the same
// time as Send and Recv.
func (l *Link) Hint(station ethertype.MAC) string { return l.m.hint(station) }

// wakeAt makes Wait end and Ready report true at a time.
func (l *Link) wakeAt(at int64) {
	if l.next.Swap(at); l.waits.Load() {
		l.nudges.Add(1)
		l.Link.Wake()
	}
}

// Stats implements transport.Link. It returns the counters of the wrapped link, as if frames had
// not been sealed. They exclude frames of handshakes. Frames that could not be opened are in
// RxFiltered, and frames that waited for a session in vain are in TxDrops.
func (l *Link) Stats() transport.Stats {
	st, c := l.Link.Stats(), l.m.count
	seal := c.stats()
	st.TxFrames -= min(st.TxFrames, c.ownTx.Load())
	st.TxBytes -= min(st.TxBytes, c.ownTxBytes.Load()+c.moreTxBytes.Load())
	st.TxCalls -= min(st.TxCalls, c.ownTxCalls.Load())
	st.TxDrops += seal.Expired + seal.Crowded
	st.RxFrames -= min(st.RxFrames, c.ownRx.Load())
	st.RxBytes -= min(st.RxBytes, c.ownRxBytes.Load()+c.moreRxBytes.Load())
	st.RxCalls -= min(st.RxCalls, c.ownRxCalls.Load())
	st.RxFiltered += seal.Dropped()
	st.Wakes -= min(st.Wakes, l.nudges.Load())
	return st
}

// Ready implements transport.Link.
func (l *Link) Ready() bool {
	if l.Link.Ready() {
		return true
	}
	next := l.next.Load()
	return next != transport.Forever && next <= l.Link.Now() && !l.closed.Load()
}

// Wait implements transport.Link. It also ends when a handshake must continue, in Recv.
func (l *Link) Wait(until int64) error {
	l.waits.Store(true)
	err := l.Link.Wait(min(until, l.next.Load()))
	l.waits.Store(false)
	return err
}

// Check implements transport.Checker if the wrapped link does.
func (l *Link) Check() error {
	err := l.base.Check()
	var change *transport.ChangeError
	if errors.As(err, &change) && change.MTU != 0 {
		less := *change
		less.MTU -= framing.SealOverhead
		return &less
	}
	return err
}
