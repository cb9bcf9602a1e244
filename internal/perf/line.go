package perf

import (
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// The line test bounces lineBatches batches of lineBounces round trips: about
// 2 ms on near cores, 6 ms on far ones.
const (
	lineBatches = 128
	lineBounces = 100
)

// lineTimeout ends a line test whose partner thread does not get its core.
const lineTimeout = 100 * time.Millisecond

// bouncer is two words on separate cache lines (pairs of lines, because processors fetch two lines
// at a time).
type bouncer struct {
	_    [256]byte
	ping atomic.Uint64
	_    [256]byte
	pong atomic.Uint64
	_    [256]byte
}

// LineTime returns how many nanoseconds a cache line needs from one core to another: the median
// over batches of half a round trip between two threads on different cores. It returns 0 if the
// process may use only one core. It occupies two cores for some milliseconds.
func LineTime() float64 {
	var allowed unix.CPUSet
	if err := unix.SchedGetaffinity(0, &allowed); err != nil || allowed.Count() < 2 || runtime.GOMAXPROCS(0) < 2 {
		return 0
	}
	first, last := -1, -1
	for cpu := range 64 * len(allowed) {
		if allowed.IsSet(cpu) {
			last = cpu
			if first < 0 {
				first = cpu
			}
		}
	}
	b := new(bouncer)
	done := make(chan float64, 1)
	deadline := time.Now().Add(lineTimeout)
	go onCore(last, func() { b.answer(deadline) })
	go onCore(first, func() { done <- b.bounce(deadline) })
	return <-done
}

// onCore runs f on a thread that may use only one core. The thread, with its affinity, ends with
// the goroutine, because it stays locked to the goroutine.
func onCore(cpu int, f func()) {
	runtime.LockOSThread()
	var set unix.CPUSet
	set.Set(cpu)
	unix.SchedSetaffinity(0, &set) // on failure the kernel chooses the core, and the median is still valid
	f()
}

func (b *bouncer) answer(deadline time.Time) {
	for i := uint64(1); i <= lineBatches*lineBounces; i++ {
		if !spinUntil(&b.ping, i, deadline) {
			return
		}
		b.pong.Store(i)
	}
}

func (b *bouncer) bounce(deadline time.Time) float64 {
	batch := make([]float64, 0, lineBatches)
	i := uint64(0)
	for range lineBatches {
		start := time.Now() // one reading of the clock per batch, so that its cost does not count
		for range lineBounces {
			i++
			b.ping.Store(i)
			if !spinUntil(&b.pong, i, deadline) {
				return median(batch)
			}
		}
		batch = append(batch, float64(time.Since(start))/(2*lineBounces))
	}
	return median(batch)
}

// spinUntil waits for word to become want.
func spinUntil(word *atomic.Uint64, want uint64, deadline time.Time) bool {
	for spins := 1; word.Load() != want; spins++ {
		if spins%(1<<16) == 0 && time.Now().After(deadline) {
			return false
		}
	}
	return true
}

// spinPast waits for word to become more than least.
func spinPast(word *atomic.Uint64, least uint64, deadline time.Time) bool {
	for spins := 1; word.Load() <= least; spins++ {
		if spins%(1<<16) == 0 && time.Now().After(deadline) {
			return false
		}
	}
	return true
}

// median returns the median of v, which it sorts, or 0 when v is empty.
func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	slices.Sort(v)
	return v[len(v)/2]
}
