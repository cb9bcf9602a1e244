// Package shared provides memory and wake-ups (bells) for two processes that do not trust each
// other. Neither process can truncate the memory.
package shared

import (
	"encoding/binary"
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
	"unsafe"

	"github.com/bobnet-go/bobnet/internal/link/driver"
	"golang.org/x/sys/unix"
)

// seals keep a process from truncating the file, which would kill the other process by SIGBUS.
const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

// Memory is a mapping of a file in memory. The other process can change every byte at any time, so
// copy data before you check them, and use only the copy. The bytes stay mapped while the Memory is
// reachable.
type Memory struct {
	base unsafe.Pointer
	size int
}

// New creates memory of size zero bytes and returns the descriptor of its file. The caller closes
// the descriptor after the other process has received it.
func New(size int) (m *Memory, fd int, err error) {
	if fd, err = unix.MemfdCreate("bobnet", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING); err != nil {
		return nil, -1, os.NewSyscallError("memfd_create", err)
	}
	if err = unix.Ftruncate(fd, int64(size)); err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals)
	}
	if err != nil {
		err = os.NewSyscallError("seal memfd", err)
	} else {
		m, err = Map(fd, size)
	}
	if err != nil {
		unix.Close(fd)
		return nil, -1, err
	}
	return m, fd, nil
}

// Map maps a file that New has created. It refuses a file that is not sealed or is shorter than
// size bytes.
func Map(fd, size int) (*Memory, error) {
	got, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	if err != nil || got&seals != seals {
		return nil, fmt.Errorf("shared: the file is not sealed (%#x, %v): %w", got, err, unix.EPROTO)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Size < int64(size) {
		return nil, fmt.Errorf("shared: the file has %d bytes, want %d (%v): %w", st.Size, size, err, unix.EPROTO)
	}
	base, err := unix.MmapPtr(fd, 0, nil, uintptr(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	m := &Memory{base, size}
	runtime.AddCleanup(m, func(dead Memory) { unix.MunmapPtr(dead.base, uintptr(dead.size)) }, *m)
	return m, nil
}

// Bytes returns the memory.
func (m *Memory) Bytes() []byte { return unsafe.Slice((*byte)(m.base), m.size) }

// Retire returns the memory to the kernel. From then on the mapping reads as zero, and no other
// process sees what is written to it.
func (m *Memory) Retire() { driver.Retire(m.base, uintptr(m.size)) }

// word returns the 32-bit word at an offset, which must be a multiple of 4.
func word(b []byte, at int) *atomic.Uint32 { return (*atomic.Uint32)(unsafe.Pointer(&b[at : at+4][0])) }

// Load reads the little-endian 32-bit word at an offset, which must be a multiple of 4. Data that
// the other process wrote before it stored the word can be read after Load.
func Load(b []byte, at int) uint32 { return little(word(b, at).Load()) }

// Store writes a little-endian 32-bit word at an offset, which must be a multiple of 4.
func Store(b []byte, at int, v uint32) { word(b, at).Store(little(v)) }

// little swaps the bytes of a word if the processor is not little-endian.
func little(v uint32) uint32 {
	var b [4]byte
	binary.LittleEndian.PutUint32(b[:], v)
	return binary.NativeEndian.Uint32(b[:])
}

// Operations of futex(2), which package unix lacks.
const (
	futexWait = 0
	futexWake = 1
	futexSome = 16 // maximum number of threads that a call wakes
)

// sleep blocks while the word equals value, for at most ns nanoseconds.
func sleep(w *atomic.Uint32, value uint32, ns int64) {
	limit := unix.NsecToTimespec(ns)
	unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(w)), futexWait, uintptr(value), uintptr(unsafe.Pointer(&limit)), 0, 0)
}

// wake wakes up to futexSome threads, of all processes, that sleep on a word, and returns their
// number. To wake one thread would not be enough: another thread of the other process could sleep
// on the word, and be woken instead. To wake all threads would be too many: the other process could
// make this call slow with many threads.
func wake(w *atomic.Uint32) (woken int) {
	n, _, _ := unix.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(w)), futexWake, futexSome, 0, 0, 0)
	return int(n)
}
