package shm

import (
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
	"unsafe"

	"github.com/bobnet-go/bobnet/internal/link/driver"
	"golang.org/x/sys/unix"
)

// Layout of the file with the memory that two stations share:
//
//	0                  control of ring 0
//	controlStride      control of ring 1
//	controlSize        ring 0, from the creator of the file to the other station
//	controlSize+size   ring 1, the other way
//
// Each ring is mapped twice in a row, so that a record never wraps at its end.
const (
	controlSize   = 64 << 10 // a multiple of every page size
	controlStride = 1024
	offFreed      = 0   // of a control: up to where the receiver has freed the ring
	offTaken      = 8   // up to where it had taken frames at its last check
	offReads      = 128 // whether the receiver fetches lent frames
	offSpeeds     = 136 // how fast the receiver copies
	offSleep      = 256 // whether the receiver sleeps; out of reach of any CPU's prefetcher
	offWritten    = 512 // up to where the sender had written at its last check
)

// Limits of a ring's size in bytes, a power of two. With the lower limit, the largest frame fits at
// any position of the mapping.
const (
	minRing = 512 << 10
	maxRing = 16 << 20
)

// seals are required before the memory of a file is accessed: a peer that could truncate the file
// could end this process with SIGBUS.
const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

// memory is a mapping of a file with two rings. It stays safe to read after retire, which replaces
// it by zero pages. A goroutine that reads a record at that moment, or a view after Close, then
// reads zeros; a plain munmap would end the process with SIGSEGV. The addresses are unmapped when
// the memory is garbage.
type memory struct {
	base unsafe.Pointer
	size int // of one ring
}

func (m *memory) span() uintptr { return uintptr(controlSize + 4*m.size) }

// newFile creates a sealed file for rings of size bytes.
func newFile(size int) (fd int, err error) {
	fd, err = unix.MemfdCreate("bobnet", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return -1, os.NewSyscallError("memfd_create", err)
	}
	if err = unix.Ftruncate(fd, int64(controlSize+2*size)); err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals)
	}
	if err != nil {
		unix.Close(fd)
		return -1, os.NewSyscallError("seal memfd", err)
	}
	return fd, nil
}

// checkFile returns an error if a peer's file is not sealed or does not have the announced size.
func checkFile(fd, size int) error {
	if size < minRing || size > maxRing || size&(size-1) != 0 {
		return fmt.Errorf("%w: rings of %d bytes", ErrBroken, size)
	}
	got, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	if err != nil || got&seals != seals {
		return fmt.Errorf("%w: its file is not sealed (%#x, %v)", ErrBroken, got, err)
	}
	if got&(unix.F_SEAL_WRITE|unix.F_SEAL_FUTURE_WRITE) != 0 {
		return fmt.Errorf("%w: its file cannot be written", ErrBroken)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Size != int64(controlSize+2*size) {
		return fmt.Errorf("%w: its file has %d bytes, want %d (%v)", ErrBroken, st.Size, controlSize+2*size, err)
	}
	return nil
}

// mapFile maps a file from newFile, or one that checkFile has accepted.
func mapFile(fd, size int) (*memory, error) {
	m := &memory{size: size}
	base, err := unix.MmapPtr(-1, 0, nil, m.span(), unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	m.base = base
	runtime.AddCleanup(m, func(dead memory) { unix.MunmapPtr(dead.base, dead.span()) }, *m)
	at := 0
	for _, part := range []struct{ offset, length int }{
		{0, controlSize}, {controlSize, size}, {controlSize, size}, {controlSize + size, size}, {controlSize + size, size},
	} {
		if _, err := unix.MmapPtr(fd, int64(part.offset), unsafe.Add(base, at), uintptr(part.length),
			unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_FIXED); err != nil {
			return nil, os.NewSyscallError("mmap", err)
		}
		at += part.length
	}
	return m, nil
}

// retire replaces the memory by zero pages.
func (m *memory) retire() { driver.Retire(m.base, m.span()) }

// ring returns the start of ring i.
func (m *memory) ring(i int) unsafe.Pointer { return unsafe.Add(m.base, controlSize+2*i*m.size) }

// word returns the word at an offset of ring i's control.
func (m *memory) word(i, offset int) *atomic.Uint64 {
	return (*atomic.Uint64)(unsafe.Add(m.base, i*controlStride+offset))
}

// sleep returns the word in which ring i's receiver announces that it sleeps.
func (m *memory) sleep(i int) *atomic.Uint32 {
	return (*atomic.Uint32)(unsafe.Add(m.base, i*controlStride+offSleep))
}
