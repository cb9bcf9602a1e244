package passfd

import (
	"os"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A signal ends the wait of a thread that lingers in the kernel during the last close of a socket.
// SO_LINGER cannot be disabled if the socket is in the queue of another socket. The signal is
// SIGURG, which Go's scheduler uses to interrupt threads, so it has no other effect.

// patience is the time that a thread may linger before the first signal. The pause before each
// further signal is twice as long as the one before, up to lastPatience.
const (
	patience     = time.Millisecond
	lastPatience = time.Second
)

// thread is a thread that runs the function of a Promptly call.
type thread struct {
	id    int
	next  time.Time // time of the next signal
	pause time.Duration
}

var threads struct {
	sync.Mutex
	all      map[*thread]struct{}
	watching bool
}

// Promptly runs f, which closes files that other processes have influenced. A close that lingers is
// interrupted after one or two milliseconds; the connection then ends as without SO_LINGER.
func Promptly(f func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	t := &thread{id: unix.Gettid(), next: time.Now().Add(patience), pause: patience}
	threads.Lock()
	if threads.all == nil {
		threads.all = map[*thread]struct{}{}
	}
	threads.all[t] = struct{}{}
	if !threads.watching {
		threads.watching = true
		go watch()
	}
	threads.Unlock()
	defer func() {
		threads.Lock()
		delete(threads.all, t)
		threads.Unlock()
	}()
	f()
}

// watch sends the signals that are due, until no thread is left.
func watch() {
	tick := time.NewTicker(patience)
	defer tick.Stop()
	for at := range tick.C {
		if !interrupt(at) {
			return
		}
	}
}

// interrupt sends the signals that are due, and reports whether threads are left.
func interrupt(now time.Time) bool {
	threads.Lock()
	defer threads.Unlock()
	for t := range threads.all {
		if now.After(t.next) {
			_ = unix.Tgkill(os.Getpid(), t.id, unix.SIGURG)
			t.pause = min(2*t.pause, lastPatience)
			t.next = now.Add(t.pause)
		}
	}
	threads.watching = len(threads.all) > 0
	return threads.watching
}
