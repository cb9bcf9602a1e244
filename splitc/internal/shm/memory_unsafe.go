package shm

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	share "github.com/bobnet-go/bobnet/internal/link/shm"
	"github.com/bobnet-go/bobnet/splitc/internal/layer"
	"golang.org/x/sys/unix"
)

// seals fix the length of a file, so that no process that has it can remove the memory of a process
// that has it mapped.
const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

// errFile is wrapped by the errors of files that are not a valid memory of a rank.
var errFile = errors.New("invalid memory file")

// memory is a rank's part of the memory that the ranks of one host share: its heap, followed by its
// inbox. It is a file without a name, which is deleted when the last process that has it open ends.
type memory struct {
	fd    int // -1 if it is another rank's memory
	all   []byte
	heap  []byte
	inbox []byte
}

// newMemory allocates the memory of a rank.
func newMemory(heap, procs int) (*memory, error) {
	fd, err := newFile(heap + inboxSize(procs))
	var m *memory
	if err == nil {
		m, err = mapMemory(fd, heap, procs)
	}
	if err != nil {
		if fd >= 0 {
			unix.Close(fd)
		}
		return nil, fmt.Errorf("splitc: layer shm: allocate a heap of %d bytes: %w", heap, share.OwnFault(err))
	}
	m.fd = fd
	return m, nil
}

// newFile creates a sealed file. On an error it returns -1.
func newFile(size int) (fd int, err error) {
	fd, err = unix.MemfdCreate("bobnet-splitc", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return -1, os.NewSyscallError("memfd_create", err)
	}
	if err = unix.Ftruncate(fd, int64(size)); err != nil {
		return fd, os.NewSyscallError("ftruncate", err)
	}
	_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals)
	return fd, os.NewSyscallError("seal memfd", err)
}

// mapMemory maps a rank's file, which may be invalid, and leaves the descriptor open.
func mapMemory(fd, heap, procs int) (*memory, error) {
	size := heap + inboxSize(procs)
	got, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	if err != nil || got&seals != seals || got&(unix.F_SEAL_WRITE|unix.F_SEAL_FUTURE_WRITE) != 0 {
		return nil, fmt.Errorf("%w: its seals are %#x (%v)", errFile, got, err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, fmt.Errorf("%w: %w", errFile, os.NewSyscallError("fstat", err))
	}
	if st.Size != int64(size) {
		return nil, fmt.Errorf("%w: %w: it has %d bytes, want %d", layer.ErrUnequal, errFile, st.Size, size)
	}
	all, err := unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_NORESERVE)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	return &memory{fd: -1, all: all, heap: all[:heap:heap], inbox: all[heap:]}, nil
}

// free unmaps the memory. The memory of other ranks remains.
func (m *memory) free() {
	if m == nil {
		return
	}
	if m.fd >= 0 {
		unix.Close(m.fd)
	}
	if err := unix.Munmap(m.all); err != nil {
		panic("splitc: munmap of the library's own pages: " + err.Error())
	}
}

// word returns the word at an offset of memory that begins at a page. Its content may be arbitrary.
func word(b []byte, at int) *atomic.Uint64 { return (*atomic.Uint64)(unsafe.Pointer(&b[at])) }
