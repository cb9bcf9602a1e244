package vipl

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

// crowded reports whether more threads want to run on this machine than it
// has processors for us. It takes a few microseconds. If the system does not
// tell, it says yes.
func crowded() bool {
	f := loadavg()
	if f == nil {
		return true
	}
	var b [64]byte
	n, _ := f.ReadAt(b[:], 0) // "0.20 0.18 0.12 1/80 11206": 1 of 80 threads is runnable
	fields := bytes.Fields(b[:n])
	if len(fields) < 4 {
		return true
	}
	runnable, _, _ := bytes.Cut(fields[3], []byte("/"))
	count, err := strconv.Atoi(string(runnable))
	return err != nil || count > runtime.NumCPU()
}
