package scale

import (
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// BenchmarkJob simulates Init, barrier, and allreduce of 8 B and 64 KiB, and reports processor time, the most resident
// memory of the process so far, and by which power of the ranks the time has grown since the first size:
//
//	GOMEMLIMIT=7GiB go test -run '^$' -bench Job -benchtime 1x ./internal/scale
func BenchmarkJob(b *testing.B) {
	const first = 256
	var took time.Duration // of the first size
	for _, ranks := range []int{first, 4096} {
		b.Run(fmt.Sprint("ranks=", ranks), func(b *testing.B) {
			began := processorTime(b)
			for b.Loop() {
				if _, err := measure(b.Context(), ranks, collectives[:3]); err != nil {
					b.Fatal(err)
				}
			}
			each := (processorTime(b) - began) / time.Duration(b.N)
			b.ReportMetric(each.Seconds(), "processor-s/op")
			b.ReportMetric(float64(peak(b))/(1<<10), "peak-MiB")
			if ranks == first {
				took = each
				return
			}
			b.ReportMetric(math.Log(float64(each)/float64(took))/math.Log(float64(ranks)/first), "exponent")
		})
	}
}

// processorTime returns how long processors have run for this process.
func processorTime(b *testing.B) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// peak returns the most KiB that were resident.
func peak(b *testing.B) (kib int) {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		fmt.Sscanf(line, "VmHWM: %d", &kib)
	}
	return kib
}
