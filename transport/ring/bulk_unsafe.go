package ring

import (
	"unsafe"

	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/internal/driver"
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
		s, v, hdr := &slots[i], &b.vecs[i], &b.msgs[i].Hdr
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
	n, errno = driver.ReceiveMessages(b.fd, b.msgs[:len(slots)])
	clear(b.vecs[:len(slots)]) // keep none of the caller's memory alive
	for i := range slots[:n] {
		slots[i].Size = int(b.msgs[i].Len)
		octets += slots[i].Size
		if b.msgs[i].Hdr.Flags&unix.MSG_TRUNC != 0 {
			cut++
		}
	}
	return n, octets, cut, errno
}
