package udp

import (
	"net/netip"
	"unsafe"

	"github.com/bobnet-go/bobnet/internal/link/driver"
	"golang.org/x/sys/unix"
)

// control is a control message with one number.
type control struct {
	hdr   unix.Cmsghdr
	value int32 // UDP_GRO; for UDP_SEGMENT its first two bytes
	_     int32
}

// recvArgs are preallocated arguments of recvmmsg.
type recvArgs struct {
	msgs  [slotsMax]unix.Mmsghdr
	vecs  [slotsMax]unix.Iovec
	names [slotsMax]unix.RawSockaddrInet6 // or RawSockaddrInet4, which is shorter
	ctl   [slotsMax]control
	last  unix.RawSockaddrInet6 // argument of the last call of source
	known source                // and its result
}

func (a *recvArgs) init(area []byte) {
	for i := range a.msgs {
		a.vecs[i].Base = &area[i*slotStride+slotShift]
		a.vecs[i].SetLen(slotSize)
		h := &a.msgs[i].Hdr
		h.Iov = &a.vecs[i]
		h.SetIovlen(1)
		h.Name = (*byte)(unsafe.Pointer(&a.names[i]))
		h.Control = (*byte)(unsafe.Pointer(&a.ctl[i]))
	}
}

// recvmmsg reads up to limit messages into the slots from first on, and returns their number.
func (a *recvArgs) recvmmsg(fd, first, limit int) int {
	for i := first; i < first+limit; i++ {
		h := &a.msgs[i].Hdr
		h.Namelen = unix.SizeofSockaddrInet6
		h.SetControllen(int(unsafe.Sizeof(control{})))
	}
	for {
		if n, errno := driver.ReceiveMessages(fd, a.msgs[first:first+limit]); errno != unix.EINTR {
			return n
		}
	}
}

// message returns the contents of slot i: the bytes, the size of each datagram, and whether bytes
// are missing.
func (a *recvArgs) message(area []byte, i int) (data []byte, size int, cut bool) {
	m := &a.msgs[i]
	at := i*slotStride + slotShift
	n := int(m.Len)
	data, size = area[at:at+n:at+n], n
	c := &a.ctl[i]
	if int(m.Hdr.Controllen) >= unix.CmsgLen(4) && c.hdr.Level == unix.SOL_UDP && c.hdr.Type == unix.UDP_GRO && c.value > 0 {
		size = int(c.value)
	}
	return data, size, m.Hdr.Flags&unix.MSG_TRUNC != 0
}

// source determines the sender of the message in slot i.
func (a *recvArgs) source(i int, s *source) {
	name := &a.names[i]
	if name.Family == unix.AF_INET { // the remaining bytes are left from earlier messages
		clear((*[unix.SizeofSockaddrInet6]byte)(unsafe.Pointer(name))[8:])
	}
	if *name != a.last {
		a.last = *name
		ip := netip.AddrFrom16(name.Addr)
		if name.Family == unix.AF_INET {
			ip = netip.AddrFrom4((*unix.RawSockaddrInet4)(unsafe.Pointer(name)).Addr)
		}
		port := (*[2]byte)(unsafe.Pointer(&name.Port))
		a.known = source{ip: ip, mac: macOf(ip), port: int(port[0])<<8 | int(port[1])}
	}
	*s = a.known
}

// pollNow polls the sockets without waiting, and reports whether any of them is readable, and
// whether the last one is.
func pollNow(fds []int) (any, last bool) {
	var args [driver.Blocks + 1]unix.PollFd
	var now unix.Timespec
	for i, fd := range fds {
		args[i] = unix.PollFd{Fd: int32(fd), Events: unix.POLLIN}
	}
	n, _, errno := unix.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&args[0])), uintptr(len(fds)),
		uintptr(unsafe.Pointer(&now)), 0, 0, 0)
	if errno != 0 || n == 0 {
		return false, false
	}
	return true, args[len(fds)-1].Revents != 0
}

// drops returns how many datagrams the kernel has dropped at a socket, modulo 2^32.
func drops(fd int) (uint32, error) {
	const skMeminfoDrops = 8 // SK_MEMINFO_DROPS
	var info [skMeminfoDrops + 1]uint32
	size := uint32(unsafe.Sizeof(info))
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_MEMINFO,
		uintptr(unsafe.Pointer(&info[0])), uintptr(unsafe.Pointer(&size)), 0)
	if errno != 0 {
		return 0, errno
	}
	return info[skMeminfoDrops], nil
}
