package ring

import (
	"unsafe"

	"github.com/bobnet-go/bobnet/transport"
	"golang.org/x/sys/unix"
)

// recv fills slots by one recvmmsg. Like a send, it is made without telling
// Go's scheduler: it cannot block, and it copies at most what a batch holds. A
// frame longer than its slot is cut, which its own size field will show.
func (b *bulk) recv(slots []transport.BulkSlot) (n, octets, cut int, errno unix.Errno) {
	if len(slots) == 0 {
		return 0, 0, 0, 0
	}
	for i := range slots {
		s, v, hdr := &slots[i], &b.vecs[i], &b.msgs[i].hdr
		parts := 0
		for _, part := range [...][]byte{s.Frame[:s.At], s.Body, s.Frame[s.At+len(s.Body):]} {
			if len(part) > 0 {
				v[parts].Base = unsafe.SliceData(part)
				v[parts].SetLen(len(part))
				parts++
			}
		}
		hdr.Iov = &v[0]
		hdr.SetIovlen(parts)
	}
	got, _, errno := unix.RawSyscall6(unix.SYS_RECVMMSG, uintptr(b.fd),
		uintptr(unsafe.Pointer(&b.msgs[0])), uintptr(len(slots)), unix.MSG_DONTWAIT, 0, 0)
	clear(b.vecs[:len(slots)]) // keep none of the caller's memory alive
	if errno != 0 {
		return 0, 0, 0, errno
	}
	for i := range slots[:got] {
		slots[i].Size = int(b.msgs[i].sent)
		octets += slots[i].Size
		if b.msgs[i].hdr.Flags&unix.MSG_TRUNC != 0 {
			cut++
		}
	}
	return int(got), octets, cut, 0
}
