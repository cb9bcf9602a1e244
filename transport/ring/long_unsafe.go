package ring

import (
	"unsafe"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/internal/link/driver"
	"github.com/bobnet-go/bobnet/transport"
	"golang.org/x/sys/unix"
)

// address says to whom message i goes.
func (t *long) address(i int, to *unix.RawSockaddrLinklayer) {
	t.msgs[i].Hdr.Name = (*byte)(unsafe.Pointer(to))
	t.msgs[i].Hdr.Namelen = unix.SizeofSockaddrLinklayer
}

// send sends long frames by one system call, each in one piece of the kernel's
// memory if whole. vecs is room for their parts.
func (t *long) send(frames []transport.Frame, whole bool, vecs []unix.Iovec) (took, octets int, errno unix.Errno) {
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
	took, octets, errno = driver.SendMessages(t.fd, t.msgs[:len(frames)], total)
	clear(vecs[:used]) // keep none of the caller's memory alive
	return took, octets - took*(vnetSize+framing.LongHeader), errno
}

// maxErrors is how often a frame is asked for: an error of the socket, such as that
// the interface has gone down, is reported once, and frames are there all the same.
const maxErrors = 4

// fetch takes the oldest frame that the kernel keeps for socket fd: its beginning
// into skipped, what follows into parts. It returns how many bytes they got, 0 if
// there is none. The scheduler is not told, as of sends.
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
