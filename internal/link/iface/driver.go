package iface

import "golang.org/x/sys/unix"

// Driver returns the name of the kernel driver of an interface of this network namespace, such as
// "veth", and the firmware version of its card. Both are empty if there is no such interface.
func Driver(name string) (driver, firmware string) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return "", ""
	}
	defer unix.Close(fd)
	info, err := unix.IoctlGetEthtoolDrvinfo(fd, name)
	if err != nil {
		return "", ""
	}
	return unix.ByteSliceToString(info.Driver[:]), unix.ByteSliceToString(info.Fw_version[:])
}

// CarriesLong reports whether an interface can pass long frames in one piece. A device behind it
// can still cut them.
func CarriesLong(name string) bool {
	driver, _ := Driver(name)
	return Virtual(driver)
}

// Virtual reports whether a driver belongs to one of Linux's virtual Ethernet interfaces, which do
// not cut TCP's segments, as a card does.
func Virtual(driver string) bool {
	switch driver {
	case "veth", "bridge", "macvlan", "802.1Q VLAN Support":
		return true
	}
	return false
}
