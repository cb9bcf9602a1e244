package layer

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// NewHeap maps a heap of size bytes outside the Go heap. Pages occupy memory after they are first
// written.
func NewHeap(size int) ([]byte, error) {
	mem, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("splitc: mapping a heap of %d bytes: %w", size, err)
	}
	return mem, nil
}

// FreeHeap unmaps a heap of NewHeap.
func FreeHeap(mem []byte) {
	if err := unix.Munmap(mem); err != nil {
		panic("splitc: munmap of the library's own pages: " + err.Error())
	}
}

// Within reports whether n bytes at offset off lie in a heap of size bytes.
func Within(size int, off uint64, n int) bool {
	return n >= 0 && n <= size && off <= uint64(size-n)
}
