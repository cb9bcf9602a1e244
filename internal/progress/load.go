package progress

import (
	"bytes"
	"os"
	"runtime"
	"strconv"
	"sync"
)

// loadavg is /proc/loadavg, opened once and for the life of the process; nil
// where there is none.
var loadavg = sync.OnceValue(func() *os.File {
	f, err := os.Open("/proc/loadavg")
	if err != nil {
		return nil
	}
	return f
})

// loadText is room for a line as /proc/loadavg has it, "0.20 0.18 0.12 1/80 11206":
// of 80 threads 1 is runnable.
type loadText [64]byte

// crowded reports whether more threads are runnable on this machine than the process has
// processors. It is called while messages are under way, so it takes a few microseconds
// only and allocates nothing. It reports true if the system does not tell.
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
