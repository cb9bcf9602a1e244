// Package alloctest counts what a function allocates, in a process in which others allocate,
// too.
package alloctest

import (
	"runtime"
	"strings"
	"testing"
)

// PerRun is testing.AllocsPerRun, which counts what the whole process allocates: also
// goroutines that end after earlier tests, and the runtime. It counts five times at most, and
// returns the least: what a run itself allocates is in each count. If that is not 0, it counts
// again by stacks, which it logs, and leaves out what the runtime allocates for itself.
func PerRun(t testing.TB, runs int, run func()) float64 {
	t.Helper()
	for range 5 {
		if testing.AllocsPerRun(runs, run) == 0 {
			return 0
		}
	}
	defer func(rate int) { runtime.MemProfileRate = rate }(runtime.MemProfileRate)
	runtime.MemProfileRate = 1
	before := allocated()
	for range runs {
		run()
	}
	sum := int64(0)
	for stack, n := range allocated() {
		if n -= before[stack]; n > 0 && strings.Contains(stack, "bobnet-go/bobnet/") {
			t.Logf("%d allocations in %d runs, by\n%s", n, runs, stack)
			sum += n
		}
	}
	return float64(sum / int64(runs))
}

// allocated returns how many objects have been allocated by each stack, of those that are not
// this function's or for the runtime's own lists of who waits.
func allocated() map[string]int64 {
	runtime.GC() // which publishes the profile of the cycle before
	runtime.GC()
	var records []runtime.MemProfileRecord
	n, ok := runtime.MemProfile(nil, true)
	for !ok {
		records = make([]runtime.MemProfileRecord, n+100)
		n, ok = runtime.MemProfile(records, true)
	}
	counts := map[string]int64{}
	for i := range records[:n] {
		stack := stackOf(&records[i])
		if !strings.Contains(stack, "alloctest.allocated") && !strings.Contains(stack, "runtime.acquireSudog") {
			counts[stack] += records[i].AllocObjects
		}
	}
	return counts
}

// stackOf returns the functions of a record, one a line.
func stackOf(r *runtime.MemProfileRecord) string {
	var b strings.Builder
	for frames := runtime.CallersFrames(r.Stack()); ; {
		f, more := frames.Next()
		b.WriteString("\t" + f.Function + "\n")
		if !more {
			return b.String()
		}
	}
}
