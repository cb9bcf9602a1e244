package shm

import (
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Constants of futex(2) and futex_waitv(2) that golang.org/x/sys lacks.
const (
	futexWake      = 1
	futexPrivate   = 128
	futexSize32    = 2
	futexWaitMax   = 128
	clockMonotonic = unix.CLOCK_MONOTONIC
)

// futexWaiter is struct futex_waitv.
type futexWaiter struct {
	value   uint64
	address uint64
	flags   uint32
	_       uint32
}

// futexes is the list of words on which a Wait sleeps. Their memory must stay mapped or reachable
// until the Wait ends.
type futexes struct {
	list  [futexWaitMax]futexWaiter
	n     int
	limit unix.Timespec
}

// add adds a word; the wait lasts while the word is value. shared means that other processes wake
// it.
func (f *futexes) add(word *atomic.Uint32, value uint32, shared bool) {
	flags := uint32(futexSize32 | futexPrivate)
	if shared {
		flags = futexSize32
	}
	f.list[f.n] = futexWaiter{value: uint64(value), address: uint64(uintptr(unsafe.Pointer(word))), flags: flags}
	f.n++
}

// wait blocks until a word has changed or left nanoseconds have passed; a negative left means
// forever. It returns 0, EAGAIN, EINTR, ETIMEDOUT, or ENOSYS on kernels before Linux 5.16.
func (f *futexes) wait(left int64) unix.Errno {
	var limit unsafe.Pointer
	if left >= 0 {
		if unix.ClockGettime(clockMonotonic, &f.limit) != nil {
			return unix.ENOSYS
		}
		f.limit = unix.NsecToTimespec(f.limit.Nano() + min(left, int64(time.Hour)))
		limit = unsafe.Pointer(&f.limit)
	}
	_, _, errno := unix.Syscall6(unix.SYS_FUTEX_WAITV, uintptr(unsafe.Pointer(&f.list)), uintptr(f.n), 0,
		uintptr(limit), clockMonotonic, 0)
	return errno
}

// wakeFutex wakes one sleeper on word.
func wakeFutex(word *atomic.Uint32, shared bool) {
	op := uintptr(futexWake | futexPrivate)
	if shared {
		op = futexWake
	}
	unix.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), op, 1, 0, 0, 0)
}

// futexesWork reports whether the kernel can wait for several words.
var futexesWork = sync.OnceValue(func() bool {
	var word atomic.Uint32
	f := new(futexes)
	f.add(&word, 1, false)
	return f.wait(0) == unix.EAGAIN
})
