// Package shared has what two processes share that do not trust each other: memory that neither of
// them can cut off, and bells.
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

// seals keep a process from cutting the file off, which would end the other one with SIGBUS.
const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

// Memory is a mapping of a file in memory. The other process can change every byte at any time: so
// copy what you judge, and judge the copy. The bytes stay mapped as long as the Memory is in use.
type Memory struct {
	base unsafe.Pointer
	size int
}

// New makes memory of so many bytes, which hold 0, and returns its file, which the caller closes
// when the other process has it.
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

// Map maps a file that New has made. It refuses one that is not sealed, or shorter than size bytes.
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

// Retire gives the memory back to the kernel. From then on the mapping holds 0, and what is written
// to it nobody else sees.
func (m *Memory) Retire() { driver.Retire(m.base, uintptr(m.size)) }

// word returns the word of 32 bits at an offset, a multiple of 4.
func word(b []byte, at int) *atomic.Uint32 { return (*atomic.Uint32)(unsafe.Pointer(&b[at : at+4][0])) }

// Load reads a little-endian word of 32 bits at an offset, a multiple of 4. What was written before
// the word was stored can be read after it.
func Load(b []byte, at int) uint32 { return little(word(b, at).Load()) }

// Store writes such a word.
func Store(b []byte, at int, v uint32) { word(b, at).Store(little(v)) }

// little swaps the bytes of a word where the processor is not little-endian.
func little(v uint32) uint32 {
	var b [4]byte
	binary.LittleEndian.PutUint32(b[:], v)
	return binary.NativeEndian.Uint32(b[:])
}

// Operations of futex(2), which x/sys does not have.
const (
	futexWait = 0
	futexWake = 1
	futexSome = 16 // the most threads that a call wakes
)

// sleep blocks while the word is value, for so many nanoseconds at most.
func sleep(w *atomic.Uint32, value uint32, ns int64) {
	limit := unix.NsecToTimespec(ns)
	unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(w)), futexWait, uintptr(value), uintptr(unsafe.Pointer(&limit)), 0, 0)
}

// wake wakes up to futexSome threads that sleep at a word, in all processes, and returns how many. One
// would be too few: a stray thread of the other process could take the place of the thread that is meant.
// All would be too many: the other process could make this call take as long as it likes, by threads.
func wake(w *atomic.Uint32) (woken int) {
	n, _, _ := unix.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(w)), futexWake, futexSome, 0, 0, 0)
	return int(n)
}
