package udp

import (
	"net/netip"
	"unsafe"

	"github.com/bobnet-go/bobnet/transport"
	"golang.org/x/sys/unix"
)

// sendArgs are preallocated arguments of sendmmsg.
type sendArgs struct {
	parts [maxVecs]unix.Iovec // of frames, in order
	msgs  [transport.MaxBatch]unix.Mmsghdr
	names [transport.MaxBatch]unix.RawSockaddrInet6 // or RawSockaddrInet4, which is shorter
	ctl   [transport.MaxBatch]control
	bytes int // of all messages
}

// name sets the destination of message m.
func (a *sendArgs) name(m int, ip netip.Addr, port int, zone uint32) {
	n := &a.names[m]
	h := &a.msgs[m].Hdr
	h.Name = (*byte)(unsafe.Pointer(n))
	if ip.Is4() {
		v4 := (*unix.RawSockaddrInet4)(unsafe.Pointer(n))
		*v4 = unix.RawSockaddrInet4{Family: unix.AF_INET, Addr: ip.As4()}
		h.Namelen = unix.SizeofSockaddrInet4
	} else {
		*n = unix.RawSockaddrInet6{Family: unix.AF_INET6, Addr: ip.As16()}
		if ip.IsLinkLocalUnicast() || ip.IsMulticast() {
			n.Scope_id = zone
		}
		h.Namelen = unix.SizeofSockaddrInet6
	}
	*(*[2]byte)(unsafe.Pointer(&n.Port)) = [2]byte{byte(port >> 8), byte(port)}
}

// vec makes part i point to b.
func (a *sendArgs) vec(i int, b []byte) {
	a.parts[i].Base = unsafe.SliceData(b)
	a.parts[i].SetLen(len(b))
	a.bytes += len(b)
}

// message describes message m: count parts from first on, which hold the given number of segments,
// frames of size bytes.
func (a *sendArgs) message(m, first, count, segments, size int) {
	h := &a.msgs[m].Hdr
	h.Iov = &a.parts[first]
	h.SetIovlen(count)
	h.Control = nil
	h.SetControllen(0)
	if segments > 1 {
		c := &a.ctl[m]
		c.hdr.Level, c.hdr.Type = unix.SOL_UDP, unix.UDP_SEGMENT
		c.hdr.SetLen(unix.CmsgLen(2))
		*(*uint16)(unsafe.Pointer(&c.value)) = uint16(size)
		h.Control = (*byte)(unsafe.Pointer(c))
		h.SetControllen(unix.CmsgSpace(2))
	}
}

// clear resets the first n parts.
func (a *sendArgs) clear(n int) {
	clear(a.parts[:n])
	a.bytes = 0
}
