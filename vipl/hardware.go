package vipl

import (
	"strings"

	"golang.org/x/sys/unix"
)

// hardwareOf returns the kernel's driver for an interface of this network
// namespace and the firmware of its card. It is empty for what is no interface.
func hardwareOf(name string) string {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return ""
	}
	defer unix.Close(fd)
	info, err := unix.IoctlGetEthtoolDrvinfo(fd, name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(unix.ByteSliceToString(info.Driver[:]) + " " + unix.ByteSliceToString(info.Fw_version[:]))
}
