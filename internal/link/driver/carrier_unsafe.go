package driver

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Carrier reports whether the driver of the interface called name currently has a carrier. It uses
// any socket in the interface's network namespace.
//
// The kernel sets IFF_RUNNING up to a second after the carrier appears. Until then an interface
// that is up carries frames although it seems not to. Carrier returns false for the few drivers
// that do not support the query: the kernel sets IFF_RUNNING of their interfaces at once.
func Carrier(socket int, name string) bool {
	value := struct{ cmd, data uint32 }{cmd: unix.ETHTOOL_GLINK}
	req := struct { // struct ifreq
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [24 - unsafe.Sizeof(uintptr(0))]byte
	}{data: unsafe.Pointer(&value)}
	if len(name) >= len(req.name) {
		return false
	}
	copy(req.name[:], name)
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(socket), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&req)))
	return errno == 0 && value.data != 0
}
