package vipl_test

import (
	"fmt"
	"testing"

	"github.com/bobnet-go/bobnet/reliability"
)

// TestReadNoAllocations reads in steady state and wants nothing allocated at
// either side.
func TestReadNoAllocations(t *testing.T) {
	for _, level := range reliableLevels {
		for _, size := range []int{0, 64, 64 << 10} {
			t.Run(fmt.Sprintf("%v/%d", level, size), func(t *testing.T) {
				d := readable(t, level, 0)
				_, at := d.source(d.nb, 1, max(size, 1))
				r := d.read(d.a, size, at)
				done := 0
				round := func() {
					for {
						d.nb.Poll()
						if _, err := d.a.SendDone(); err == nil {
							break
						}
					}
					done++
					if err := d.a.PostSend(r); err != nil {
						t.Fatal(err)
					}
				}
				for range 100 { // queues and windows grow to their size
					round()
				}
				if n := testing.AllocsPerRun(200, round); n != 0 {
					t.Errorf("%v allocations per read", n)
				}
				if done != 301 { // AllocsPerRun makes one run to warm up
					t.Errorf("%d reads, want 301", done)
				}
			})
		}
	}
}

// BenchmarkEngineRead measures the engine's own cost of a 64-byte read, both
// sides together: compare with twice that of BenchmarkEngine.
func BenchmarkEngineRead(b *testing.B) {
	d := readable(b, reliability.ReliableDelivery, 0)
	_, at := d.source(d.nb, 1, 64)
	r := d.read(d.a, 64, at)
	b.ReportAllocs()
	b.ResetTimer()
	start := cpuTime()
	for range b.N {
		d.nb.Poll()
		if _, err := d.a.SendDone(); err != nil {
			b.Fatal(err)
		}
		if err := d.a.PostSend(r); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(cpuTime()-start)/float64(b.N), "cpu-ns/read")
}
