package vipl_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/vipl"
)

// TestNoAllocations posts, polls and takes in steady state at each level, with
// one-frame and multi-frame messages, and wants nothing allocated.
func TestNoAllocations(t *testing.T) {
	need.Simulated(t)
	for _, level := range levels {
		for _, size := range []int{0, 64, 64 << 10} {
			t.Run(fmt.Sprintf("%v/%d", level, size), func(t *testing.T) {
				a, b := memVIs(t, 1500, level)
				in, _ := newBuffers(b.NIC(), 4, size)
				out, _ := newBuffers(a.NIC(), 1, size)
				for i := range in.descs {
					if err := b.PostRecv(&in.descs[i]); err != nil {
						t.Fatal(err)
					}
				}
				received := 0
				round := func() {
					if err := a.PostSend(&out.descs[0]); err != nil {
						t.Fatal(err)
					}
					for sent, got := false, false; !sent || !got; {
						if d, err := b.RecvDone(); err == nil {
							got = true
							received++
							b.PostRecv(d)
						}
						if _, err := a.SendDone(); err == nil {
							sent = true
						}
					}
				}
				for range 100 { // queues and windows grow to their size
					round()
				}
				if n := testing.AllocsPerRun(200, round); n != 0 {
					t.Errorf("%v allocations per message", n)
				}
				if received != 301 { // AllocsPerRun makes one run to warm up
					t.Errorf("%d messages arrived, want 301", received)
				}
			})
		}
	}
}

// TestIdleVIMemory connects a thousand VIs and wants the library to keep at
// most 4 KiB for each.
func TestIdleVIMemory(t *testing.T) {
	const count, limit = 1000, 4 << 10
	d := newDuo(t, nil, nil)
	l, err := d.na.Listen(0)
	if err != nil {
		t.Fatal(err)
	}
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	vis := make([]*vipl.VI, 0, 2*count)
	before := heap()
	for range count {
		vis = append(vis, connectOver(t, l, d)...)
	}
	per := int64(heap()-before) / (2 * count)
	t.Logf("%d bytes for each connected VI", per)
	if per > limit {
		t.Errorf("an idle VI keeps %d bytes, want at most %d", per, limit)
	}
	runtime.KeepAlive(vis)
}

// connectOver connects a new VI of each side through l.
func connectOver(t *testing.T, l *vipl.Listener, d *duo) []*vipl.VI {
	a, err := d.na.CreateVI(nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := d.nb.CreateVI(nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.ConnectStart(l.Addr(), nil); err != nil {
		t.Fatal(err)
	}
	r, err := taken(l, d.nb)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.AcceptStart(a); err != nil {
		t.Fatal(err)
	}
	d.run()
	if a.State() != vipl.StateConnected || b.State() != vipl.StateConnected {
		t.Fatal("not connected:", a.State(), b.State())
	}
	return []*vipl.VI{a, b}
}

// TestReadNoAllocations reads in steady state and wants nothing allocated at
// either side.
func TestReadNoAllocations(t *testing.T) {
	need.Simulated(t)
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
