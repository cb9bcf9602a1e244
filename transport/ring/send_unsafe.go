package ring

import (
	"unsafe"

	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/internal/afpacket"
	"golang.org/x/sys/unix"
)

// message is struct mmsghdr, which x/sys/unix does not define. The compiler
// pads it as C does: to 64 bytes on 64-bit machines, 32 on others.
type message struct {
	hdr  unix.Msghdr
	sent uint32 // set by the kernel
}

// Calls up to longBytes are made without telling Go's scheduler. That saves 5
// to 10 % of a small frame's time; and a call that lasts longer than 20 us, as a
// batch of large frames does, would lose its processor to another thread and
// go on on a third one with cold caches, which costs a quarter of the
// bandwidth. They cannot block (MSG_DONTWAIT), but they delay a stop of the
// world: on veth the receiver's half of the work is done within the call, about
// 1 us a frame and 1 us per 4 to 8 KiB.
const longBytes = 1 << 20

// one sends one contiguous frame.
func (t *sender) one(b []byte) (took, octets int, errno unix.Errno) {
	var sent uintptr
	if len(b) <= longBytes {
		sent, _, errno = unix.RawSyscall6(unix.SYS_SENDTO, uintptr(t.fd),
			uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), unix.MSG_DONTWAIT, 0, 0)
	} else {
		sent, _, errno = unix.Syscall6(unix.SYS_SENDTO, uintptr(t.fd),
			uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), unix.MSG_DONTWAIT, 0, 0)
	}
	if errno != 0 {
		return 0, 0, errno
	}
	return 1, int(sent), 0
}

// gather sends frames, of which the first is known to be valid, up to the
// first invalid one or as many as fit.
func (t *sender) gather(frames []transport.Frame, limit int) (took, octets int, errno unix.Errno) {
	count, vecs, total := 0, 0, 0
	for i := range frames {
		f := &frames[i]
		if i > 0 && afpacket.CheckFrame(f, limit) != nil || vecs+1+len(f.Body) > maxVecs {
			break
		}
		parts := t.put(f, vecs)
		hdr := &t.msgs[i].hdr
		hdr.Iov = &t.vecs[vecs]
		hdr.SetIovlen(parts)
		vecs += parts
		total += f.Len()
		count++
	}
	short := total <= longBytes
	if count == 1 {
		took, octets, errno = t.sendmsg(short)
	} else {
		took, octets, errno = t.sendmmsg(count, short)
	}
	clear(t.vecs[:vecs]) // keep none of the caller's memory alive
	return took, octets, errno
}

// put enters the parts of f at vecs[at:] and returns how many there are.
func (t *sender) put(f *transport.Frame, at int) int {
	n := at
	t.vec(n, f.Head)
	n++
	for _, part := range f.Body {
		if len(part) > 0 {
			t.vec(n, part)
			n++
		}
	}
	return n - at
}

func (t *sender) vec(i int, b []byte) {
	t.vecs[i].Base = unsafe.SliceData(b)
	t.vecs[i].SetLen(len(b))
}

// sendmsg sends the frame in msgs[0].
func (t *sender) sendmsg(short bool) (took, octets int, errno unix.Errno) {
	var sent uintptr
	if short {
		sent, _, errno = unix.RawSyscall(unix.SYS_SENDMSG, uintptr(t.fd),
			uintptr(unsafe.Pointer(&t.msgs[0].hdr)), unix.MSG_DONTWAIT)
	} else {
		sent, _, errno = unix.Syscall(unix.SYS_SENDMSG, uintptr(t.fd),
			uintptr(unsafe.Pointer(&t.msgs[0].hdr)), unix.MSG_DONTWAIT)
	}
	if errno != 0 {
		return 0, 0, errno
	}
	return 1, int(sent), 0
}

// sendmmsg sends the frames in msgs[:count]. An error means that none went:
// after the first the kernel returns how many did.
func (t *sender) sendmmsg(count int, short bool) (took, octets int, errno unix.Errno) {
	var sent uintptr
	if short {
		sent, _, errno = unix.RawSyscall6(unix.SYS_SENDMMSG, uintptr(t.fd),
			uintptr(unsafe.Pointer(&t.msgs[0])), uintptr(count), unix.MSG_DONTWAIT, 0, 0)
	} else {
		sent, _, errno = unix.Syscall6(unix.SYS_SENDMMSG, uintptr(t.fd),
			uintptr(unsafe.Pointer(&t.msgs[0])), uintptr(count), unix.MSG_DONTWAIT, 0, 0)
	}
	if errno != 0 {
		return 0, 0, errno
	}
	for i := range t.msgs[:sent] {
		octets += int(t.msgs[i].sent)
	}
	return int(sent), octets, 0
}
