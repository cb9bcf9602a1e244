package shm

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"

	"github.com/bobnet-go/bobnet/internal/link/optional"
	"golang.org/x/sys/unix"
)

var _ optional.MemoryReader = (*Link)(nil)

// readMost is the most bytes that one system call copies from another process. It bounds the time for
// which the call cannot be interrupted, to about a millisecond.
const readMost = 8 << 20

// ReadMemory implements optional.MemoryReader. The process is the one whose credentials the kernel has
// attached to its hello, so a peer cannot name another one. It must be of this process's user. The
// kernel then decides, as it does for a debugger (ptrace(2), PTRACE_MODE_ATTACH_REALCREDS).
func (l *Link) ReadMemory(port uint16, dst []byte, from, mark uint64) (uint64, error) {
	pid := l.process(port)
	if pid == 0 {
		return 0, fmt.Errorf("shm: read memory of port %d: no process of this user shares memory: %w", port, unix.ESRCH)
	}
	for len(dst) > readMost {
		if err := readMemory(pid, dst[:readMost], from, nil, 0); err != nil {
			return 0, err
		}
		dst, from = dst[readMost:], from+readMost
	}
	var word [8]byte
	err := readMemory(pid, dst, from, word[:], mark)
	return binary.NativeEndian.Uint64(word[:]), err
}

// process returns the process at a port of another station, or 0 if there is none or its memory is not to be read.
func (l *Link) process(port uint16) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range *l.peers.Load() {
		if p.conn != nil && p.ports.Contains(port) && p.failure == nil && !p.ended.Load() {
			return p.pid
		}
	}
	return 0
}

// readableProcess returns the process of a hello's sender if its memory may be read, and 0 otherwise. A
// process in another PID namespace has no number here. Other users' processes are left out, even
// for root: such a process could make the copy take for ever, by memory that its own file system or
// userfaultfd(2) provides.
func readableProcess(who *unix.Ucred) int {
	if who == nil || int(who.Uid) != os.Geteuid() {
		return 0
	}
	return int(who.Pid)
}

// readMemory fills a and then b from two addresses of a process.
func readMemory(pid int, a []byte, fromA uint64, b []byte, fromB uint64) error {
	if fromA > math.MaxInt || fromB > math.MaxInt {
		return unix.EFAULT
	}
	local := [2]unix.Iovec{}
	remote := [2]unix.RemoteIovec{{Base: uintptr(fromA), Len: len(a)}, {Base: uintptr(fromB), Len: len(b)}}
	for i, part := range [2][]byte{a, b} {
		if len(part) > 0 {
			local[i].Base = &part[0]
		}
		local[i].SetLen(len(part))
	}
	n, err := unix.ProcessVMReadv(pid, local[:], remote[:], 0)
	switch {
	case err != nil:
		return os.NewSyscallError("process_vm_readv", err)
	case n != len(a)+len(b):
		return os.NewSyscallError("process_vm_readv", unix.EFAULT)
	}
	return nil
}
