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

// The memory that two stations share, as it lies in the file:
//
//	0                  control of ring 0
//	controlStride      control of ring 1
//	controlSize        ring 0, from who made the file to who was given it
//	controlSize+size   ring 1, the other way
//
// Each ring is mapped twice, one copy behind the other, so that no record ever
// has to be cut at its end.
const (
	controlSize   = 64 << 10 // a multiple of every page size
	controlStride = 1024
	offFreed      = 0   // of a control: how far the receiver has freed the ring
	offTaken      = 8   // how far it had taken frames at its last check
	offSleep      = 256 // whether it sleeps; far enough for any processor's prefetcher
	offWritten    = 512 // how far the sender had written at its last check
)

// Bounds of a ring's size in bytes, a power of two. The lower one leaves room
// for the largest frame in any place of the mapping.
const (
	minRing = 512 << 10
	maxRing = 16 << 20
)

// seals are what a file must have before its memory is touched: a peer that
// could truncate it would end this process with SIGBUS.
const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

// memory is a mapping of a file with two rings. It stays safe to read after it
// is gone: retire puts zero pages in its place, so that a goroutine that is
// just looking at a record, or at a view after Close, reads zeros where a plain
// munmap would end the process with SIGSEGV. The addresses themselves are
// given back when the memory is garbage.
type memory struct {
	base unsafe.Pointer
	size int // of one ring
}

func (m *memory) span() uintptr { return uintptr(controlSize + 4*m.size) }

// newFile makes a sealed file for rings of size bytes.
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

// checkFile refuses a file from a peer that is not sealed or not of the size
// that it says.
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

// mapFile maps the file, which checkFile has passed or newFile made.
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

// ring returns where ring i starts.
func (m *memory) ring(i int) unsafe.Pointer { return unsafe.Add(m.base, controlSize+2*i*m.size) }

// word returns the word of ring i's control at an offset.
func (m *memory) word(i, offset int) *atomic.Uint64 {
	return (*atomic.Uint64)(unsafe.Add(m.base, i*controlStride+offset))
}

// sleep returns the word in which ring i's receiver says that it sleeps.
func (m *memory) sleep(i int) *atomic.Uint32 {
	return (*atomic.Uint32)(unsafe.Add(m.base, i*controlStride+offSleep))
}
