package vethtest

import "golang.org/x/sys/unix"

// As calls f as another user. It needs root. The calling thread must be locked, as in Pair.In,
// because only this thread becomes the other user.
func As(uid int, f func() error) error {
	set := func(to int) error {
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), uintptr(to), ^uintptr(0)); errno != 0 {
			return errno
		}
		return nil
	}
	if err := set(uid); err != nil {
		return err
	}
	defer func() {
		if err := set(0); err != nil {
			panic(err)
		}
	}()
	return f()
}
