package xsk

import (
	"github.com/bobnet-go/bobnet/transport"
	"golang.org/x/sys/unix"
)

// Send copies frames, each of up to the limit given to Open, to the kernel,
// has it send them in one call, and returns how many went, in order, and their
// bytes. It takes Budget frames at most, and none until what a disturbance left
// behind is reclaimed. Why it sent fewer than it was given is not said: whoever
// offers the next one to a packet socket hears it there. It does not allocate.
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

// enter copies f to the next chunk and names it in the TX ring.
func (s *Socket) enter(f *transport.Frame) (nbytes int) {
	off := s.sent % slots * s.size
	nbytes = s.umem.fill(off, s.size, f)
	*s.tx.desc(s.sent) = unix.XDPDesc{Addr: uint64(off), Len: uint32(nbytes)}
	s.sent++
	return nbytes
}

// kick has the kernel send what has been entered.
func (s *Socket) kick() unix.Errno {
	s.tx.produce(s.sent)
	errno := kick(s.fd)
	if errno == unix.ENXIO {
		s.gone = true
	}
	return errno
}

// room returns how many chunks are ours. The completion ring is looked at only
// when they run short, because the driver may be writing to it.
func (s *Socket) room() int {
	if s.sent-s.back > slots-Budget {
		s.reap()
	}
	return int(slots - (s.sent - s.back))
}

// reap takes back the chunks of completed frames. Which ones these are is not
// asked: a queue completes in order. Some kernels complete what they refused,
// too, under its address.
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

// withdraw takes out of the TX ring what a kick left there, and returns how
// many of the frames from first on went. Before Linux 6.17 the kernel shows how
// far it has come only when it comes to the end. So what may be left is made
// invalid and kicked again: the kernel skips that, and counts it.
func (s *Socket) withdraw(first uint32, why unix.Errno) (n int) {
	s.reclaimed = false
	left := s.sent - s.tx.consumed()
	for i := range left {
		*s.tx.desc(s.sent - 1 - i) = unix.XDPDesc{Addr: uint64(s.umem.size), Len: 1} // behind the end
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

// drain has the kernel skip invalid descriptors, of which it may pass one in
// each call and show that it did in the next, and counts them. It reports
// whether the TX ring is empty.
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

// reclaim reports whether all chunks are the socket's again after withdraw. From then on
// the n-th descriptor is again at chunk n.
func (s *Socket) reclaim() bool {
	if s.gone || !s.drain() {
		return false
	}
	s.reap()
	s.reclaimed = s.back == s.sent
	return s.reclaimed
}
