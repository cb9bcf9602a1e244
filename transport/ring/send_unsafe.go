package ring

import (
	"encoding/binary"
	"unsafe"

	"github.com/bobnet-go/bobnet/internal/link/afpacket"
	"github.com/bobnet-go/bobnet/internal/link/driver"
	"github.com/bobnet-go/bobnet/transport"
	"golang.org/x/sys/unix"
)

// sockaddrPkt is the kernel's struct sockaddr_pkt: the address that a socket of type SOCK_PACKET
// sends to.
type sockaddrPkt struct {
	family   uint16
	device   [afpacket.MaxDevice + 1]byte // the interface's name, and a NUL
	protocol uint16                       // in network byte order
}

// name returns the interface's name.
func (a *sockaddrPkt) name() string { return unix.ByteSliceToString(a.device[:]) }

// address directs all frames to an interface, with an EtherType.
func (t *sender) address(device string, typ uint16) {
	t.to = &sockaddrPkt{family: unix.AF_PACKET, protocol: binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, typ))}
	copy(t.to.device[:afpacket.MaxDevice], device)
	for i := range t.msgs {
		t.msgs[i].Hdr.Name = (*byte)(unsafe.Pointer(t.to))
		t.msgs[i].Hdr.Namelen = uint32(unsafe.Sizeof(*t.to))
	}
}

// one sends one contiguous frame.
func (t *sender) one(b []byte) (took, nbytes int, errno unix.Errno) {
	var sent, size uintptr
	if t.to != nil {
		size = unsafe.Sizeof(*t.to)
	}
	if len(b) <= driver.LongBytes {
		sent, _, errno = unix.RawSyscall6(unix.SYS_SENDTO, uintptr(t.fd),
			uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), unix.MSG_DONTWAIT, uintptr(unsafe.Pointer(t.to)), size)
	} else {
		sent, _, errno = unix.Syscall6(unix.SYS_SENDTO, uintptr(t.fd),
			uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), unix.MSG_DONTWAIT, uintptr(unsafe.Pointer(t.to)), size)
	}
	if errno != 0 {
		return 0, 0, errno
	}
	return 1, int(sent), 0
}

// gather sends frames up to the first invalid one, or as many as fit. The caller has checked the
// first one.
func (t *sender) gather(frames []transport.Frame, limit int) (took, nbytes int, errno unix.Errno) {
	count, vecs, total := 0, 0, 0
	for i := range frames {
		f := &frames[i]
		if i > 0 && driver.CheckFrame(f, limit) != nil || vecs+1+len(f.Body) > maxVecs {
			break
		}
		parts := t.put(f, vecs)
		hdr := &t.msgs[i].Hdr
		hdr.Iov = &t.vecs[vecs]
		hdr.SetIovlen(parts)
		vecs += parts
		total += f.Len()
		count++
	}
	if count == 1 {
		took, nbytes, errno = t.sendmsg(total)
	} else {
		took, nbytes, errno = driver.SendMessages(t.fd, t.msgs[:count], total)
	}
	clear(t.vecs[:vecs]) // do not keep the caller's memory alive
	return took, nbytes, errno
}

// put stores the parts of f at vecs[at:], and returns how many there are.
func (t *sender) put(f *transport.Frame, at int) int {
	n := vec(t.vecs[:], at, f.Head)
	for _, part := range f.Body {
		n = vec(t.vecs[:], n, part)
	}
	return n - at
}

// vec stores a part unless it is empty, and returns the index for the next one.
func vec(vecs []unix.Iovec, at int, part []byte) int {
	if len(part) == 0 {
		return at
	}
	vecs[at].Base = unsafe.SliceData(part)
	vecs[at].SetLen(len(part))
	return at + 1
}

// sendmsg sends the frame in msgs[0], which has total bytes.
func (t *sender) sendmsg(total int) (took, nbytes int, errno unix.Errno) {
	var sent uintptr
	if total <= driver.LongBytes {
		sent, _, errno = unix.RawSyscall(unix.SYS_SENDMSG, uintptr(t.fd),
			uintptr(unsafe.Pointer(&t.msgs[0].Hdr)), unix.MSG_DONTWAIT)
	} else {
		sent, _, errno = unix.Syscall(unix.SYS_SENDMSG, uintptr(t.fd),
			uintptr(unsafe.Pointer(&t.msgs[0].Hdr)), unix.MSG_DONTWAIT)
	}
	if errno != 0 {
		return 0, 0, errno
	}
	return 1, int(sent), 0
}
