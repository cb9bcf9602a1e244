package udp

import (
	"unsafe"

	"github.com/bobnet-go/bobnet/ethertype"
	"golang.org/x/sys/unix"
)

// hardware returns the MAC of the interface, which the kernel returns through a socket. For an
// interface that is not Ethernet it returns the first bytes of its address.
func hardware(socket int, name string) (mac ethertype.MAC, err error) {
	req, err := unix.NewIfreq(name)
	if err != nil {
		return mac, err
	}
	if err := unix.IoctlIfreq(socket, unix.SIOCGIFHWADDR, req); err != nil {
		return mac, err
	}
	const at = unix.IFNAMSIZ + 2 // after the name and the address family
	raw := (*[unsafe.Sizeof(*req)]byte)(unsafe.Pointer(req))
	return ethertype.MAC(raw[at : at+len(mac)]), nil
}
