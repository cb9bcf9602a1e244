package nodeagent

import (
	"errors"
	"net"
	"unsafe"

	"golang.org/x/sys/unix"
)

// fewGroups is the number of groups that fit into the first request.
const fewGroups = 32

// groupsOf returns the supplementary groups that the kernel recorded for the process at the other end
// of a connection when it connected, from whatever directory they came. It returns none before
// Linux 4.13.
func groupsOf(conn *net.UnixConn) (groups []uint32, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	failed := raw.Control(func(fd uintptr) { groups, err = peerGroups(fd) })
	return groups, errors.Join(failed, err)
}

// peerGroups is groupsOf for a descriptor. If the groups do not fit, the kernel returns the size that
// they need.
func peerGroups(fd uintptr) ([]uint32, error) {
	const each = uint32(unsafe.Sizeof(uint32(0)))
	groups := make([]uint32, fewGroups)
	for {
		size := uint32(len(groups)) * each
		_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, fd, unix.SOL_SOCKET, unix.SO_PEERGROUPS,
			uintptr(unsafe.Pointer(unsafe.SliceData(groups))), uintptr(unsafe.Pointer(&size)), 0)
		switch has := int(size / each); {
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
