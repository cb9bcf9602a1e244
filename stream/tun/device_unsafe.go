package tun

import (
	"os"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// queue reads and writes the device's file. Its system calls take a few microseconds and never
// sleep, so they bypass Go's scheduler. The scheduler would take the processor away from this
// thread during the call, and put threads to sleep and wake others for every packet.
type queue struct {
	raw syscall.RawConn

	to     *reader // of the single goroutine that reads
	got    int
	inErr  error
	reads  func(fd uintptr) bool
	mu     sync.Mutex // guards what follows
	out    [3]unix.Iovec
	outErr error
	writes func(fd uintptr) bool
}

func newQueue(f *os.File) (*queue, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	q := &queue{raw: raw}
	q.reads = q.readSome
	q.writes = q.writeAll
	return q, nil
}

// read reads a packet into the memory that r returns, and waits for one. Only one goroutine may
// call it at a time.
func (q *queue) read(r *reader) (int, error) {
	q.to, q.inErr = r, nil
	if q.raw.Read(q.reads) != nil { // it is closed: nothing sets deadlines
		return 0, os.ErrClosed
	}
	return q.got, q.inErr
}

func (q *queue) readSome(fd uintptr) (done bool) {
	b := q.to.room()
	n, _, errno := unix.RawSyscall(unix.SYS_READ, fd, uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
	for errno == unix.EINTR {
		n, _, errno = unix.RawSyscall(unix.SYS_READ, fd, uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
	}
	if errno == 0 {
		q.got = int(n)
		return true
	}
	q.to.none()
	if errno != unix.EAGAIN {
		q.got, q.inErr = 0, errno
	}
	return errno != unix.EAGAIN
}

// write writes a packet that consists of parts.
func (q *queue) write(parts *[3][]byte) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, p := range parts {
		q.out[i].Base = unsafe.SliceData(p)
		q.out[i].SetLen(len(p))
	}
	q.outErr = nil
	err := q.raw.Write(q.writes)
	clear(q.out[:])
	if err != nil {
		return os.ErrClosed
	}
	return q.outErr
}

func (q *queue) writeAll(fd uintptr) (done bool) {
	for {
		_, _, errno := unix.RawSyscall(unix.SYS_WRITEV, fd, uintptr(unsafe.Pointer(&q.out)), uintptr(len(q.out)))
		switch errno {
		case 0:
			return true
		case unix.EINTR:
		case unix.EAGAIN:
			return false
		default:
			q.outErr = errno
			return true
		}
	}
}
