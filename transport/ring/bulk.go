package ring

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/internal/afpacket"
	"github.com/bobnet-go/bobnet/transport/internal/driver"
	"golang.org/x/sys/unix"
)

// keepBytes is what the kernel may keep of frames for which no slot of the ring is
// long enough, by its own accounting: a window of every size of frame. It counts
// twice what was asked for.
const keepBytes = 8 << 20

// growBuffer gives a socket room for keepBytes. The error says for what it is
// needed, and how to do without.
func growBuffer(fd int, what, without string) error {
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, keepBytes) != nil {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, keepBytes)
	}
	size, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF)
	if err == nil && size < keepBytes {
		err = fmt.Errorf("%w: %s need a buffer of %d bytes, the limit allows %d: sysctl -w net.core.rmem_max=%d, or choose %s",
			unix.ENOBUFS, what, keepBytes, size, keepBytes/2, without)
	}
	return err
}

// bulk is the second receiving socket: it gets the frames with
// ethertype.FlagBulk, and has no ring. A frame waits in the kernel as the
// sender's processor left it there and is copied by the receiver's, once, to
// where it belongs. With the ring the sender's processor copies it twice.
type bulk struct {
	can, trial bool
	fd         int          // -1: there is none
	bound      atomic.Int32 // one more than fd, from when frames may come by it; 0: they come by the ring
	started    bool         // they do come by it
	leaving    bool         // it is closed when it is empty
	closing    sync.WaitGroup
	msgs       []unix.Mmsghdr
	vecs       [][3]unix.Iovec
}

// open makes the socket, unless it is not wanted: now, because later the caller
// may be in another network namespace. Until StartBulk binds it no frame knows of
// it. Without the right to a buffer large enough it is of no use: a window of
// frames would overrun it.
func (b *bulk) open(s *afpacket.Station, choice Choice) (err error) {
	if choice == Off {
		return nil
	}
	if b.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0); err != nil {
		b.fd, err = -1, s.OpenError("open packet socket", err)
	} else if err = growBuffer(b.fd, "bulk frames", "Bulk off"); err == nil {
		err = attach(b.fd, s, afpacket.OnlyBulk)
	}
	if err != nil {
		b.close()
		if choice == Auto {
			return nil //nolint:nilerr // nobody asked for it
		}
		return err
	}
	b.can, b.trial = true, choice == Auto
	b.msgs = make([]unix.Mmsghdr, transport.MaxBatch)
	b.vecs = make([][3]unix.Iovec, transport.MaxBatch)
	return nil
}

// close closes the socket beside the caller, because the kernel takes some ten
// milliseconds for it; frames no longer know of it at once.
func (b *bulk) close() {
	if fd := b.fd; fd >= 0 {
		b.fd = -1
		b.closing.Go(func() { unix.Close(fd) })
	}
}

// pollable returns the descriptor to wait for; the kernel passes over -1.
func (b *bulk) pollable() int { return int(b.bound.Load()) - 1 }

// Bulk implements transport.BulkReceiver.
func (l *Link) Bulk() bool { return l.bulk.can }

// BulkOnTrial implements transport.BulkReceiver.
func (l *Link) BulkOnTrial() bool { return l.bulk.trial }

// StartBulk implements transport.BulkReceiver. The kernel asks every socket of the
// EtherType whether it wants a frame, so that the second one costs each frame
// some 5 % of its time.
func (l *Link) StartBulk() error {
	b, s := &l.bulk, l.station
	if b.fd < 0 || b.started || b.leaving {
		return nil
	}
	if !l.gate.Enter() {
		return transport.ErrClosed
	}
	defer l.gate.Leave()
	var err error
	if b.bound.Load() == 0 {
		err = s.OpenError("bind", bind(b.fd, s.Index, uint16(s.EtherType)))
	} else {
		err = attach(b.fd, s, afpacket.OnlyBulk)
	}
	if err == nil {
		err = attach(l.rx.fd, s, l.frames()|afpacket.NoBulk) // only now: better twice than not at all
	}
	if err != nil {
		l.leave()
		return err
	}
	b.started = true
	b.bound.Store(int32(b.fd) + 1)
	l.wait.Wake() // who waits may not look at the socket
	return nil
}

// StopBulk implements transport.BulkReceiver.
func (l *Link) StopBulk(forGood bool) error {
	b, s := &l.bulk, l.station
	if !l.gate.Enter() {
		return transport.ErrClosed
	}
	defer l.gate.Leave()
	if b.bound.Load() == 0 {
		if forGood {
			l.leave()
		}
		return nil
	}
	if err := attach(l.rx.fd, s, l.frames()); err != nil {
		return err
	}
	if err := attach(b.fd, s, afpacket.NoBulk|afpacket.OnlyBulk); err != nil { // only now, as above
		return err
	}
	b.started, b.leaving = false, forGood
	return nil
}

// leave gives the socket back.
func (l *Link) leave() {
	l.readDrops() // which go with it
	l.statsMu.Lock()
	l.bulk.bound.Store(0)
	l.bulk.close()
	l.statsMu.Unlock()
}

// RecvBulk implements transport.BulkReceiver: one system call.
func (l *Link) RecvBulk(slots []transport.BulkSlot) (n int, err error) {
	if l.bulk.bound.Load() == 0 {
		return 0, nil
	}
	if !l.gate.Enter() {
		return 0, transport.ErrClosed
	}
	n, octets, cut, errno := l.bulk.recv(slots[:min(len(slots), transport.MaxBatch)])
	switch errno {
	case 0, unix.EAGAIN, unix.EINTR:
	case unix.ENETDOWN, unix.ENODEV, unix.ENXIO:
		err = transport.ErrLinkDown
	default:
		err = errno
	}
	if n > 0 {
		l.cnt.RxCalls.Add(1)
		l.cnt.RxFrames.Add(uint64(n))
		l.cnt.RxBytes.Add(uint64(octets))
		driver.Add(&l.cnt.RxTruncated, cut)
	} else if l.bulk.leaving {
		l.leave()
	}
	l.gate.Leave()
	return n, err
}
