package ring

import (
	"unsafe"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/internal/link/driver"
	"github.com/bobnet-go/bobnet/transport"
	"golang.org/x/sys/unix"
)

// address sets the destination of message i.
func (t *long) address(i int, to *unix.RawSockaddrLinklayer) {
	t.msgs[i].Hdr.Name = (*byte)(unsafe.Pointer(to))
	t.msgs[i].Hdr.Namelen = unix.SizeofSockaddrLinklayer
}

// send sends long frames with one system call. If whole is set, the kernel keeps each frame in one
// contiguous buffer. vecs is scratch space for the parts of the frames.
func (t *long) send(frames []transport.Frame, whole bool, vecs []unix.Iovec) (took, nbytes int, errno unix.Errno) {
	used, total := 0, 0
	for i := range frames {
		f := &frames[i]
		if used+2+len(f.Body) > len(vecs) {
			frames = frames[:i]
			break
		}
		t.fillHead(i, f, whole)
		first := used
		used = vec(vecs, used, t.heads[i][:])
		used = vec(vecs, used, f.Head[ethertype.EthernetSize:])
		for _, part := range f.Body {
			used = vec(vecs, used, part)
		}
		t.msgs[i].Hdr.Iov = &vecs[first]
		t.msgs[i].Hdr.SetIovlen(used - first)
		total += f.Len()
	}
	took, nbytes, errno = driver.SendMessages(t.fd, t.msgs[:len(frames)], total)
	clear(vecs[:used]) // do not keep the caller's memory alive
	return took, nbytes - took*(vnetSize+framing.LongHeader), errno
}

// maxErrors is how often fetch retries after an error. The kernel reports an error of the socket
// (for example, that the interface went down) once, and frames can still be queued.
const maxErrors = 4

// fetch takes the oldest frame in the queue of socket fd. It copies the frame's beginning to
// skipped and the rest to parts, and returns the number of bytes in parts: 0 if the queue is empty.
// The call bypasses Go's scheduler, as sends do.
func (t *long) fetch(fd int, skipped []byte, parts [][]byte) int {
	used := vec(t.vecs[:], 0, skipped)
	for _, part := range parts {
		used = vec(t.vecs[:], used, part)
	}
	hdr := unix.Msghdr{Iov: &t.vecs[0]}
	hdr.SetIovlen(used)
	n, errno := uintptr(0), unix.Errno(unix.EINTR)
	for tries := 0; errno != 0 && errno != unix.EAGAIN && tries < maxErrors; tries++ {
		n, _, errno = unix.RawSyscall(unix.SYS_RECVMSG, uintptr(fd), uintptr(unsafe.Pointer(&hdr)), unix.MSG_DONTWAIT)
	}
	clear(t.vecs[:used])
	if errno != 0 {
		return 0
	}
	return int(n)
}
