package lab

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// errGoexit is what onThread returns when fn ended its goroutine.
var errGoexit = errors.New("lab: the function ended its goroutine")

// onThread calls fn on a thread of its own. fn may change the thread's
// namespaces at will, because the thread ends with it: a goroutine that exits
// locked takes its thread along.
func onThread(fn func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			// The main thread cannot end, and /proc/self speaks of it.
			// Occupy it, so that the next goroutine gets another.
			done <- onThread(fn)
			runtime.UnlockOSThread()
			return
		}
		err := errGoexit
		defer func() { done <- err }()
		err = fn()
	}()
	return <-done
}

// inside calls fn on a thread of its own in network namespace ns.
func inside(ns netns.NsHandle, fn func() error) error {
	return onThread(func() error {
		if err := unix.Setns(int(ns), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("setns: %w", err)
		}
		return fn()
	})
}

// newNamespace makes a network namespace, calls setup in it and returns a
// descriptor, which is all that keeps it. The thread is found in /proc by
// thread-self: in a lab within a lab /proc does not have the numbers that this
// process knows.
func newNamespace(setup func() error) (netns.NsHandle, error) {
	ns := netns.None()
	err := onThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("unshare network namespace: %w", err)
		}
		var err error
		if ns, err = netns.GetFromPath("/proc/thread-self/ns/net"); err != nil {
			return err
		}
		return setup()
	})
	return ns, err
}
