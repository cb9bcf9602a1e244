package nodeagent

import (
	"net"
	"unsafe"

	"golang.org/x/sys/unix"
)

// rawSockaddrPkt is struct sockaddr_pkt, the address that a socket of type SOCK_PACKET sends to.
type rawSockaddrPkt struct {
	family   uint16
	device   [14]byte
	protocol uint16
}

// sendPacket sends a frame from an interface by an address of the socket's kind.
func sendPacket(fd, index int, name string, protocol uint16, frame []byte, flags int, control []byte) error {
	protocol = protocol<<8 | protocol>>8
	if typ, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE); err != nil || typ != unix.SOCK_PACKET {
		_, err := unix.SendmsgN(fd, frame, control, &unix.SockaddrLinklayer{Ifindex: index, Protocol: protocol}, flags)
		return err
	}
	to := rawSockaddrPkt{family: unix.AF_PACKET, protocol: protocol}
	copy(to.device[:len(to.device)-1], name)
	iov := unix.Iovec{Base: unsafe.SliceData(frame)}
	iov.SetLen(len(frame))
	hdr := unix.Msghdr{Name: (*byte)(unsafe.Pointer(&to)), Namelen: uint32(unsafe.Sizeof(to)), Iov: &iov, Control: unsafe.SliceData(control)}
	hdr.SetIovlen(1)
	hdr.SetControllen(len(control))
	if _, _, errno := unix.Syscall(unix.SYS_SENDMSG, uintptr(fd), uintptr(unsafe.Pointer(&hdr)), uintptr(flags)); errno != 0 {
		return errno
	}
	return nil
}

// bindPacket binds a socket to an interface and a protocol by an address of the socket's kind. That
// of a SOCK_PACKET socket has the protocol that the socket was opened with.
func bindPacket(fd, index int, protocol uint16) error {
	typ, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	if err != nil || typ != unix.SOCK_PACKET {
		return unix.Bind(fd, packetAddress(index, protocol))
	}
	device, err := net.InterfaceByIndex(index)
	if err != nil {
		return err
	}
	to := rawSockaddrPkt{family: unix.AF_PACKET}
	copy(to.device[:len(to.device)-1], device.Name)
	if _, _, errno := unix.Syscall(unix.SYS_BIND, uintptr(fd), uintptr(unsafe.Pointer(&to)), unsafe.Offsetof(to.protocol)); errno != 0 {
		return errno
	}
	return nil
}
