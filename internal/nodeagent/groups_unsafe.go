package nodeagent

import (
	"errors"
	"net"
	"unsafe"

	"golang.org/x/sys/unix"
)

// fewGroups is how many groups are asked for at first.
const fewGroups = 32

// groupsOf returns the supplementary groups that the process at the other end of a connection
// had when it connected, as the kernel knows them, whatever directory they are from. There are
// none where the kernel cannot say, before Linux 4.13.
func groupsOf(conn *net.UnixConn) (groups []uint32, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	failed := raw.Control(func(fd uintptr) { groups, err = peerGroups(fd) })
	return groups, errors.Join(failed, err)
}

// peerGroups is groupsOf for a descriptor. If there are more groups than fit, the kernel says
// what they take.
func peerGroups(fd uintptr) ([]uint32, error) {
	const each = uint32(unsafe.Sizeof(uint32(0)))
	groups := make([]uint32, fewGroups)
	for {
		octets := uint32(len(groups)) * each
		_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, fd, unix.SOL_SOCKET, unix.SO_PEERGROUPS,
			uintptr(unsafe.Pointer(unsafe.SliceData(groups))), uintptr(unsafe.Pointer(&octets)), 0)
		switch has := int(octets / each); {
		case errno == 0:
			return groups[:has], nil
		case errno == unix.ENOPROTOOPT:
			return nil, nil
		case errno != unix.ERANGE || has <= len(groups):
			return nil, errno
		default:
			groups = make([]uint32, has)
		}
	}
}
