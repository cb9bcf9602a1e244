package ring

import (
	"fmt"
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
	fd      int         // -1: frames with the flag come by the ring
	started atomic.Bool // the socket is bound
	msgs    []unix.Mmsghdr
	vecs    [][3]unix.Iovec
}

// open makes the socket. Without the right to a buffer large enough that is an
// error: a window of frames would overrun it.
func (b *bulk) open(s *afpacket.Station) (err error) {
	b.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		b.fd = -1
		return s.OpenError("open packet socket", err)
	}
	if err := growBuffer(b.fd, "bulk frames", "Bulk off"); err != nil {
		b.close()
		return err
	}
	if err := attach(b.fd, s, afpacket.OnlyBulk); err != nil {
		return err
	}
	b.msgs = make([]unix.Mmsghdr, transport.MaxBatch)
	b.vecs = make([][3]unix.Iovec, transport.MaxBatch)
	return nil
}

// pollable returns the descriptor to wait for; the kernel passes over -1.
func (b *bulk) pollable() int32 {
	if b.started.Load() {
		return int32(b.fd)
	}
	return -1
}

func (b *bulk) close() {
	if b.fd >= 0 {
		unix.Close(b.fd)
		b.fd = -1
	}
}

// Bulk implements transport.BulkReceiver.
func (l *Link) Bulk() bool { return l.bulk.fd >= 0 }

// StartBulk implements transport.BulkReceiver. The kernel asks every socket of the
// EtherType whether it wants a frame, so that the second one costs each frame
// some 5 % of its time.
func (l *Link) StartBulk() error {
	if !l.Bulk() || l.bulk.started.Load() {
		return nil
	}
	if !l.gate.Enter() {
		return transport.ErrClosed
	}
	defer l.gate.Leave()
	s := l.station
	if err := bind(l.bulk.fd, s.Index, uint16(s.EtherType)); err != nil {
		return s.OpenError("bind", err)
	}
	if err := attach(l.rx.fd, s, afpacket.NoBulk); err != nil { // only now: better twice than not at all
		return err
	}
	l.bulk.started.Store(true)
	return nil
}

// RecvBulk implements transport.BulkReceiver: one system call.
func (l *Link) RecvBulk(slots []transport.BulkSlot) (n int, err error) {
	if !l.bulk.started.Load() {
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
	}
	l.gate.Leave()
	return n, err
}
