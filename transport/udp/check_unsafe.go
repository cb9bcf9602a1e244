package udp

import (
	"unsafe"

	"github.com/bobnet-go/bobnet/ethertype"
	"golang.org/x/sys/unix"
)

// hardware returns the MAC of the interface called name, asked through a socket:
// of one that is no Ethernet the first octets of its address.
func hardware(socket int, name string) (mac ethertype.MAC, err error) {
	req, err := unix.NewIfreq(name)
	if err != nil {
		return mac, err
	}
	if err := unix.IoctlIfreq(socket, unix.SIOCGIFHWADDR, req); err != nil {
		return mac, err
	}
	const at = unix.IFNAMSIZ + 2 // behind the name and the family
	raw := (*[unsafe.Sizeof(*req)]byte)(unsafe.Pointer(req))
	return ethertype.MAC(raw[at : at+len(mac)]), nil
}
