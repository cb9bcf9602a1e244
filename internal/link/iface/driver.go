package iface

import "golang.org/x/sys/unix"

// Driver returns the name of the kernel's driver for an interface of this network
// namespace, such as "veth", and the version of the firmware of its card. They
// are empty for what is no interface.
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

// CarriesLong reports whether an interface may pass on long frames whole. What lies behind it may cut
// them all the same.
func CarriesLong(name string) bool {
	driver, _ := Driver(name)
	return Virtual(driver)
}

// Virtual reports whether a driver is that of Linux's virtual interfaces of Ethernet, which leave the segments of TCP
// whole. A card cuts them.
func Virtual(driver string) bool {
	switch driver {
	case "veth", "bridge", "macvlan", "802.1Q VLAN Support":
		return true
	}
	return false
}
