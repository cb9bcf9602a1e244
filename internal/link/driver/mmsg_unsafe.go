package driver

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// LongBytes is up to how many bytes calls send without telling Go's scheduler. That saves
// 5 to 10 % of a small frame's time. And a call that the scheduler knows of and that takes
// longer than 20 us, as that of a batch of large frames does, would lose its processor to
// another thread and go on on a third one with cold caches, which costs a quarter of the
// bandwidth. The calls cannot block (MSG_DONTWAIT), but they delay a
// stop of the world: on veth the receiver's half of the work is done within the
// call, about 1 us a frame and 1 us per 4 to 8 KiB.
const LongBytes = 1 << 20

// SendMessages sends msgs, of total bytes, in one call and returns how many
// messages went and the bytes in them. An error means that none went: after the
// first the kernel returns how many did.
func SendMessages(socket int, msgs []unix.Mmsghdr, total int) (sent, octets int, errno unix.Errno) {
	var n uintptr
	if total <= LongBytes {
		n, _, errno = unix.RawSyscall6(unix.SYS_SENDMMSG, uintptr(socket),
			uintptr(unsafe.Pointer(unsafe.SliceData(msgs))), uintptr(len(msgs)), unix.MSG_DONTWAIT, 0, 0)
	} else {
		n, _, errno = unix.Syscall6(unix.SYS_SENDMMSG, uintptr(socket),
			uintptr(unsafe.Pointer(unsafe.SliceData(msgs))), uintptr(len(msgs)), unix.MSG_DONTWAIT, 0, 0)
	}
	if errno != 0 {
		return 0, 0, errno
	}
	for i := range msgs[:n] {
		octets += int(msgs[i].Len)
	}
	return int(n), octets, 0
}

// ReceiveMessages fills msgs in one call. It cannot block, and Go's scheduler is not told
// of it, because that would cost more than the call.
func ReceiveMessages(socket int, msgs []unix.Mmsghdr) (n int, errno unix.Errno) {
	got, _, errno := unix.RawSyscall6(unix.SYS_RECVMMSG, uintptr(socket),
		uintptr(unsafe.Pointer(unsafe.SliceData(msgs))), uintptr(len(msgs)), unix.MSG_DONTWAIT, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(got), 0
}
