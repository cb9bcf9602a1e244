// Package xsk sends Ethernet frames through an AF_XDP socket that does nothing
// else.
//
// Sending needs no XDP program and no capability but CAP_NET_RAW. The kernel
// and the process share memory (the UMEM), cut into chunks of one frame each,
// and two rings: in one the process names the chunks to send, in the other the
// kernel says that it is done with them. The socket is in copy mode, which
// every driver has: a system call, the kick, has the kernel make a packet of
// each frame and hand it to the driver, past the traffic control layer and
// unseen by tcpdump.
//
//	chunk     0       1       2              63
//	UMEM  [ frame | frame |       |  ...  |       ]   chunk i belongs to slot i
//	TX    [ 0,len | 1,len |       |  ...  |       ]   of the TX ring
//	         consumer        producer
//
// A frame is only ever in the TX ring during a kick. What the kernel leaves
// there, because the driver is busy or the interface is down, is taken out
// again and reported as not sent, so that nothing is sent late or twice.
package xsk

import (
	"math/bits"
	"time"

	"golang.org/x/sys/unix"
)

// MaxFrame is the longest frame that a socket can send, in bytes, Ethernet
// header included. The kernel allows no larger chunk than a page.
const MaxFrame = 4096

// Budget is the most frames that the kernel sends in one kick.
const Budget = 32

// slots is how many frames may be with the kernel and the driver: two kicks'.
const slots = 2 * Budget

// minChunk is the smallest chunk that the kernel accepts.
const minChunk = 2048

// Socket is an AF_XDP socket that sends. It must not be shared between
// goroutines without a lock around all of its methods.
type Socket struct {
	fd   int
	umem region
	tx   ring
	done ring   // the completion ring
	size uint32 // bytes of a chunk

	// These count descriptors, as the rings' indices do, modulo 2^32.
	sent      uint32 // entered into the TX ring; the n-th is for chunk n modulo slots
	completed uint32 // of them, those that the driver is done with, as far as we have looked
	voided    uint32 // of them, those that were taken out again
	back      uint32 // those whose chunk is ours again: completed and voided
	reaped    uint32 // entries of the completion ring that were looked at

	reclaimed bool // no descriptor was withdrawn since all chunks were the socket's
	gone      bool // the interface was removed, or its queue
}

// Open returns a socket that sends frames of up to limit bytes, at most
// MaxFrame, on the interface with the given index, in the network namespace of
// the calling thread. It takes the first queue of the interface that is free,
// and waits for one until give is over (0: not at all),
// because the kernel frees the queue of a closed socket only some 20 ms later.
//
// The error is a unix.Errno: EBUSY when other sockets have all queues,
// EAFNOSUPPORT where the kernel has no AF_XDP, EPERM without CAP_NET_RAW,
// ENOBUFS when the limit on locked memory (ulimit -l) is below what Memory
// says, ENOPROTOOPT before Linux 5.4.
func Open(index, limit int, give time.Duration) (*Socket, error) {
	s := &Socket{fd: -1, size: chunkSize(limit), reclaimed: true}
	err := s.open()
	if err == nil {
		err = s.attach(index, give)
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Memory returns how many bytes of locked memory a socket for frames of up to
// limit bytes takes.
func Memory(limit int) int { return slots * int(chunkSize(limit)) }

// chunkSize returns the smallest chunk that holds limit bytes.
func chunkSize(limit int) uint32 {
	return max(minChunk, uint32(1)<<bits.Len(uint(min(limit, MaxFrame)-1)))
}

// open acquires what Close gives back. The kernel wants all rings before bind,
// though the fill ring is for receiving only.
func (s *Socket) open() (err error) {
	if s.fd, err = unix.Socket(unix.AF_XDP, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err != nil {
		s.fd = -1
		return err
	}
	if s.umem, err = newRegion(slots * int(s.size)); err != nil {
		return err
	}
	if err := register(s.fd, s.umem, s.size); err != nil {
		return err
	}
	for option, n := range map[int]int{unix.XDP_UMEM_FILL_RING: 1, unix.XDP_UMEM_COMPLETION_RING: slots, unix.XDP_TX_RING: slots} {
		if err := unix.SetsockoptInt(s.fd, unix.SOL_XDP, option, n); err != nil {
			return err
		}
	}
	at, err := offsets(s.fd)
	if err != nil {
		return err
	}
	if s.tx, err = mapRing(s.fd, unix.XDP_PGOFF_TX_RING, at.Tx, descSize); err != nil {
		return err
	}
	if s.done, err = mapRing(s.fd, unix.XDP_UMEM_PGOFF_COMPLETION_RING, at.Cr, addrSize); err != nil {
		return err
	}
	// Drivers that keep packets until they are sent fill the send buffer; a
	// smaller one fills sooner, which Send reports.
	_ = unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_SNDBUF, 4*s.umem.size)
	return nil
}

// attach binds the socket to a queue. An interface has no queue behind one
// that is refused with EINVAL.
func (s *Socket) attach(index int, give time.Duration) error {
	const pause = time.Millisecond
	for end := time.Now().Add(give); ; time.Sleep(pause) {
		err := unix.EBUSY
		for queue := 0; err == unix.EBUSY; queue++ {
			err = bind(s.fd, index, queue)
			if queue > 0 && err == unix.EINVAL {
				err = unix.EBUSY
				break
			}
		}
		switch {
		case err == 0:
			return nil
		case err != unix.EBUSY || time.Now().After(end):
			return err
		}
	}
}

// Close releases the socket, for which the kernel takes some 5 ms. It may be
// called again, but not during Send.
func (s *Socket) Close() {
	if s.fd >= 0 {
		unix.Close(s.fd)
		s.fd = -1
	}
	for _, r := range []*region{&s.umem, &s.tx.region, &s.done.region} {
		r.free()
	}
}
