package shm_test

import (
	"runtime"
	"sync"
	"testing"

	"github.com/bobnet-go/bobnet/internal/link/shm"
	"golang.org/x/sys/unix"
)

// TestSignalIsNoEnd: a peer is there as long as its stream is, whatever signals come to
// the thread that looks, as those by which Go's scheduler preempts busy goroutines.
func TestSignalIsNoEnd(t *testing.T) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pair[0])
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	thread, over := unix.Gettid(), make(chan struct{})
	var signals sync.WaitGroup
	signals.Go(func() {
		for {
			select {
			case <-over:
				return
			default:
				_ = unix.Tgkill(unix.Getpid(), thread, unix.SIGURG)
			}
		}
	})
	ended := 0
	for range 20_000 {
		if shm.StreamEnded(uintptr(pair[0])) {
			ended++
		}
	}
	close(over)
	signals.Wait()
	if ended > 0 {
		t.Errorf("the stream was taken for ended %d times", ended)
	}
	if unix.Close(pair[1]); !shm.StreamEnded(uintptr(pair[0])) {
		t.Error("the end of the stream was not seen")
	}
}
