package xsk

import (
	"github.com/bobnet-go/bobnet/transport"
	"golang.org/x/sys/unix"
)

// Send copies frames, each of up to the limit given to Open, to the kernel, and
// makes the kernel send them in one call. It returns the number of sent frames,
// which are sent in order, and their bytes. It sends at most Budget frames.
// After an incomplete kick it sends none until all chunks are reclaimed. Send
// does not report why it sent fewer frames than given: a caller that sends the
// next frame through a packet socket gets the error there. Send does not
// allocate.
func (s *Socket) Send(frames []transport.Frame) (n, nbytes int) {
	if !s.reclaimed && !s.reclaim() {
		return 0, 0
	}
	frames = frames[:min(len(frames), Budget, s.room())]
	if len(frames) == 0 {
		return 0, 0
	}
	first := s.sent
	for i := range frames {
		nbytes += s.enter(&frames[i])
	}
	errno := s.kick()
	if errno == 0 && s.tx.consumed() == s.sent {
		return len(frames), nbytes
	}
	n, nbytes = s.withdraw(first, errno), 0
	for i := range frames[:n] {
		nbytes += frames[i].Len()
	}
	return n, nbytes
}

// enter copies f to the next chunk and adds the chunk to the TX ring.
func (s *Socket) enter(f *transport.Frame) (nbytes int) {
	off := s.sent % slots * s.size
	nbytes = s.umem.fill(off, s.size, f)
	*s.tx.desc(s.sent) = unix.XDPDesc{Addr: uint64(off), Len: uint32(nbytes)}
	s.sent++
	return nbytes
}

// kick makes the kernel send the entered frames.
func (s *Socket) kick() unix.Errno {
	s.tx.produce(s.sent)
	errno := kick(s.fd)
	if errno == unix.ENXIO {
		s.gone = true
	}
	return errno
}

// room returns the number of free chunks. It reads the completion ring only if there are few,
// because the driver may be writing to the ring.
func (s *Socket) room() int {
	if s.sent-s.back > slots-Budget {
		s.reap()
	}
	return int(slots - (s.sent - s.back))
}

// reap frees the chunks of completed frames. It does not read which chunks these are, because a
// queue completes frames in order. Some kernels also complete refused frames, with their addresses.
func (s *Socket) reap() {
	n := s.done.produced()
	for ; s.reaped != n; s.reaped++ {
		if *s.done.address(s.reaped) < uint64(s.umem.size) {
			s.completed++
		}
	}
	s.done.consume(n)
	s.back = s.completed + s.voided
}

// withdraw removes the frames that a kick left in the TX ring, and returns how
// many of the frames from first on were sent. Before Linux 6.17 the kernel
// publishes its progress only when it reaches the end of the ring. So withdraw
// makes the descriptors that may be left invalid and kicks again: the kernel
// skips and counts them.
func (s *Socket) withdraw(first uint32, why unix.Errno) (n int) {
	s.reclaimed = false
	left := s.sent - s.tx.consumed()
	for i := range left {
		*s.tx.desc(s.sent - 1 - i) = unix.XDPDesc{Addr: uint64(s.umem.size), Len: 1} // beyond the end
	}
	if before := s.voided; s.drain() {
		left = s.voided - before
	}
	n = int(s.sent-first) - int(min(left, s.sent-first))
	if why == unix.EBUSY && n > 0 { // the driver dropped the last one
		n--
	}
	return n
}

// drain makes the kernel skip and count invalid descriptors. The kernel may skip one per call, and
// publish this in the next call. drain reports whether the TX ring is empty.
func (s *Socket) drain() bool {
	for range slots + 1 {
		if s.tx.consumed() == s.sent || s.kick() != 0 {
			break
		}
	}
	refused, err := refusals(s.fd)
	s.voided = uint32(refused)
	return err == nil && s.tx.consumed() == s.sent
}

// reclaim reports whether all chunks are free again after withdraw. From then on, descriptor n is
// for chunk n again.
func (s *Socket) reclaim() bool {
	if s.gone || !s.drain() {
		return false
	}
	s.reap()
	s.reclaimed = s.back == s.sent
	return s.reclaimed
}
