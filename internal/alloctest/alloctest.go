// Package alloctest counts the allocations of a function, in a process in which other goroutines
// allocate, too.
package alloctest

import (
	"runtime"
	"strings"
	"testing"
)

// PerRun returns the average number of allocations of a run. testing.AllocsPerRun counts the
// allocations of the whole process, including those of the runtime and of goroutines that earlier
// tests have left. PerRun therefore repeats it up to five times, until it counts 0. If it never
// counts 0, PerRun counts the allocations by stack, without those of the runtime, and logs the
// stacks.
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

// allocated returns the number of objects that each stack has allocated. It omits its own
// allocations, and those of the runtime for its lists of waiting goroutines.
func allocated() map[string]int64 {
	runtime.GC() // publishes the profile of the previous cycle
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

// stackOf returns the functions of a record, one per line.
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
