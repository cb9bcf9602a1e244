package progress

import (
	"bytes"
	"os"
	"runtime"
	"strconv"
	"sync"
)

// loadavg is /proc/loadavg, which stays open for the life of the process; nil if it does not exist.
var loadavg = sync.OnceValue(func() *os.File {
	f, err := os.Open("/proc/loadavg")
	if err != nil {
		return nil
	}
	return f
})

// loadText holds a line of /proc/loadavg such as "0.20 0.18 0.12 1/80 11206": 1 of 80 threads is
// runnable.
type loadText [64]byte

// crowded reports whether the host has more runnable threads than the process has processors, and
// true if this is unknown. It runs while messages are in flight, so it takes a few microseconds and
// does not allocate.
func (b *loadText) crowded() bool {
	f := loadavg()
	if f == nil {
		return true
	}
	n, _ := f.ReadAt(b[:], 0)
	rest := b[:n]
	for range 3 {
		_, rest, _ = bytes.Cut(rest, []byte(" "))
	}
	runnable, _, told := bytes.Cut(rest, []byte("/"))
	count, err := strconv.Atoi(string(runnable))
	return !told || err != nil || count > runtime.NumCPU()
}
