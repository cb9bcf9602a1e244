package processor

import (
	"bytes"
	"strconv"

	"golang.org/x/sys/unix"
)

// Delay measures how long threads have waited for a processor while they were runnable. The zero
// Delay is ready. One goroutine at a time may use it. A reading takes about a microsecond.
type Delay struct {
	tid    int // the thread that file belongs to; 0: none
	file   int // its /proc/thread-self/schedstat
	before int64
	broken bool // the system does not measure it
	text   [64]byte
}

// Since returns for how many nanoseconds the calling thread has waited since the previous call. ok
// is false if another thread made that call, if there was none, or if the system does not measure
// the delay.
func (d *Delay) Since() (ns int64, ok bool) {
	if d.broken {
		return 0, false
	}
	tid := unix.Gettid()
	same := tid == d.tid
	if !same && !d.open(tid) {
		return 0, false
	}
	n, _ := unix.Pread(d.file, d.text[:], 0)
	now, ok := parseDelay(d.text[:max(n, 0)])
	ns, d.before, d.broken = now-d.before, now, !ok
	return ns, ok && same
}

// open opens the file of the calling thread.
func (d *Delay) open(tid int) bool {
	d.Close()
	file, err := unix.Open("/proc/thread-self/schedstat", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if d.broken = err != nil; d.broken {
		return false
	}
	d.tid, d.file = tid, file
	return true
}

// parseDelay returns the delay in a line of schedstat: the time on a processor, the time of waiting for
// one, both in nanoseconds, and the number of time slices.
func parseDelay(line []byte) (ns int64, ok bool) {
	_, rest, _ := bytes.Cut(line, []byte(" "))
	text, _, ok := bytes.Cut(rest, []byte(" "))
	ns, err := strconv.ParseInt(string(text), 10, 64)
	return ns, ok && err == nil
}

// Close closes the file that Since has opened.
func (d *Delay) Close() {
	if d.tid != 0 {
		unix.Close(d.file)
		d.tid = 0
	}
}
