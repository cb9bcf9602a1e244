// Package leaktest detects resources that tests leak: descriptors, goroutines, mappings and child
// processes. It also detects what the processes that tests start leave on the host.
package leaktest

import (
	"bytes"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/need"
)

// Cycles returns the number of repetitions in a test of leaks: more than twice mappingSlack.
func Cycles() int {
	if need.Race { // the race detector finds the same races in a few cycles as in many
		return 20
	}
	return 2*mappingSlack + 10
}

// holdings contains the numbers of resources that the process holds.
type holdings struct {
	descriptors, goroutines, mappings, children int
}

// mappingSlack is the number of mappings that the Go heap, threads and the race detector may add
// meanwhile. Up to 31 were observed on a busy machine. A leak of one mapping per cycle exceeds it.
const mappingSlack = 60

// Run calls cycle a few times, to warm up, and then Cycles times, with the number of the cycle, and
// fails the test at the first error, or if the process holds more resources afterwards than before.
// Before the call the caller must open resources that a process opens once and keeps. Several
// workers call cycle concurrently, because the kernel closes a packet socket slowly, but can close
// many at the same time.
func Run(t *testing.T, workers int, cycle func(i int) error) {
	t.Helper()
	n := Cycles()
	repeat(t, 2*workers, workers, cycle)
	before := awaitEnd(t, func(holdings) bool { return false }, time.Second/4)
	repeat(t, n, workers, cycle)
	fine := func(h holdings) bool {
		return h.descriptors <= before.descriptors && h.goroutines <= before.goroutines &&
			h.children <= before.children && h.mappings <= before.mappings+mappingSlack
	}
	after := awaitEnd(t, fine, 20*time.Second)
	t.Logf("%d cycles: %+v before, %+v after", n, before, after)
	if !fine(after) {
		stacks := make([]byte, 1<<20)
		t.Errorf("%d cycles have left something behind: %+v before, %+v after\ndescriptors: %v\n%s",
			n, before, after, descriptors(), stacks[:runtime.Stack(stacks, true)])
	}
}

func repeat(t *testing.T, n, workers int, cycle func(i int) error) {
	t.Helper()
	var next atomic.Int64
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && !t.Failed(); i = int(next.Add(1)) - 1 {
				if err := cycle(i); err != nil {
					t.Errorf("cycle %d: %v", i, err)
				}
			}
		})
	}
	group.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// awaitEnd checks repeatedly until fine returns true, or for the given time: finalizers and other
// goroutines release resources with a delay.
func awaitEnd(t *testing.T, fine func(holdings) bool, patience time.Duration) (h holdings) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(2 * time.Millisecond) {
		runtime.GC()
		if h = look(t); fine(h) || time.Now().After(end) {
			return h
		}
	}
}

// loadavg is a file that package progress opens once, when the first wait finds the machine busy.
const loadavg = "/proc/loadavg"

// descriptors returns the files of the open descriptors, without loadavg.
func descriptors() (list []string) {
	fds, _ := os.ReadDir("/proc/self/fd")
	for _, fd := range fds {
		if target, _ := os.Readlink("/proc/self/fd/" + fd.Name()); target != loadavg {
			list = append(list, fd.Name()+" "+target)
		}
	}
	return list
}

func look(t *testing.T) holdings {
	t.Helper()
	open := descriptors()
	if len(open) == 0 {
		t.Fatal("/proc/self/fd cannot be read")
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	children := 0
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		list, _ := os.ReadFile("/proc/self/task/" + task.Name() + "/children") // the thread may have ended
		children += len(strings.Fields(string(list)))
	}
	return holdings{descriptors: len(open), goroutines: runtime.NumGoroutine(), mappings: bytes.Count(maps, []byte("\n")), children: children}
}
