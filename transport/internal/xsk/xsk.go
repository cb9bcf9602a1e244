// Package xsk sends Ethernet frames through an AF_XDP socket that does nothing
// else.
//
// Sending needs no XDP program, and only the capability CAP_NET_RAW. The kernel
// and the process share memory (the UMEM), which is divided into chunks of one
// frame each, and two rings. The process puts the chunks to send into the TX
// ring, and the kernel puts the finished chunks into the completion ring. The
// socket is in copy mode, which every driver supports. In one system call, the
// kick, the kernel makes a packet of each frame and passes it to the driver.
// The packets bypass the traffic control layer, and tcpdump does not see them.
//
//	chunk     0       1       2              63
//	UMEM  [ frame | frame |       |  ...  |       ]   chunk i belongs to slot i
//	TX    [ 0,len | 1,len |       |  ...  |       ]   of the TX ring
//	         consumer        producer
//
// A frame is in the TX ring only during a kick. If the kernel leaves frames
// there, because the driver is busy or the interface is down, Send withdraws
// them and reports them as not sent. So no frame is sent late or twice.
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

// slots is the maximum number of frames that the kernel and the driver hold:
// those of two kicks.
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

	// The following count descriptors, like the indices of the rings, modulo
	// 2^32.
	sent      uint32 // entered into the TX ring; the n-th is for chunk n modulo slots
	completed uint32 // of those, the ones that the driver has finished, as far as the process knows
	voided    uint32 // of those, the ones that were withdrawn
	back      uint32 // of those, the ones whose chunk is free again: completed and voided
	reaped    uint32 // processed entries of the completion ring

	reclaimed bool // no descriptor was withdrawn since all chunks were last free
	gone      bool // the interface or its queue was removed
}

// Open returns a socket that sends frames of up to limit bytes, at most
// MaxFrame, on the interface with the given index, in the network namespace of
// the calling thread. It takes the first free queue of the interface. It waits
// for a free queue for at most give (0: not at all), because the kernel frees
// the queue of a closed socket only some 20 ms later.
//
// The error is a unix.Errno: EBUSY when other sockets have all queues,
// EAFNOSUPPORT where the kernel has no AF_XDP, EPERM without CAP_NET_RAW,
// ENOBUFS if the limit on locked memory (ulimit -l) is below the result of
// Memory, ENOPROTOOPT before Linux 5.4.
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

// Memory returns the number of bytes of locked memory that a socket for frames
// of up to limit bytes needs.
func Memory(limit int) int { return slots * int(chunkSize(limit)) }

// chunkSize returns the smallest chunk that holds limit bytes.
func chunkSize(limit int) uint32 {
	return max(minChunk, uint32(1)<<bits.Len(uint(min(limit, MaxFrame)-1)))
}

// open acquires the resources that Close releases. The kernel requires all
// rings before bind, although the fill ring is only for receiving.
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
	// Drivers that keep packets until they are sent fill the send buffer. A
	// smaller buffer fills sooner, which Send reports.
	_ = unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_SNDBUF, 4*s.umem.size)
	return nil
}

// attach binds the socket to a queue. If the kernel refuses a queue with
// EINVAL, the interface has no queues from there on.
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

// Close releases the socket, which takes the kernel some 5 ms. It may be called
// again, but not during Send.
func (s *Socket) Close() {
	if s.fd >= 0 {
		unix.Close(s.fd)
		s.fd = -1
	}
	for _, r := range []*region{&s.umem, &s.tx.region, &s.done.region} {
		r.free()
	}
}
