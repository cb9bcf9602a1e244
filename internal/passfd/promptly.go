package passfd

import (
	"os"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A thread that lingers in the kernel, for the last close of a socket, goes on when it gets a
// signal. SO_LINGER itself cannot be switched off where the socket lies in the queue of another
// one. SIGURG is the signal by which Go's scheduler interrupts threads: nothing else happens.

// patience is how long a thread may linger before the first signal. Each further signal comes after
// twice as long as the one before.
const (
	patience     = time.Millisecond
	lastPatience = time.Second
)

// thread is one that runs a function of Promptly's.
type thread struct {
	id    int
	next  time.Time // when it gets a signal
	pause time.Duration
}

var threads struct {
	sync.Mutex
	all      map[*thread]struct{}
	watching bool
}

// Promptly runs f, which closes files that other processes have had a hand in. A close that
// lingers is interrupted after a millisecond or two: the connection then ends as without SO_LINGER.
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

// watch sends signals to threads whose time is up, until there are none.
func watch() {
	tick := time.NewTicker(patience)
	defer tick.Stop()
	for at := range tick.C {
		if !interrupt(at) {
			return
		}
	}
}

// interrupt sends the signals that are due, and reports whether there are threads.
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
