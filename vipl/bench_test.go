package vipl_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/vipl"
)

// echoer sends every message of size bytes back until the VI fails.
func echoer(v *vipl.VI, size int) {
	in, _ := newBuffers(v.NIC(), 8, size)
	out, _ := newBuffers(v.NIC(), 8, size)
	for i := range in.descs {
		v.PostRecv(&in.descs[i])
	}
	for i := 0; ; i++ {
		d, err := v.RecvWait(bg)
		if err != nil {
			return
		}
		if i >= len(out.descs) {
			v.SendWait(bg)
		}
		v.PostSend(&out.descs[i%len(out.descs)])
		v.PostRecv(d)
	}
}

// BenchmarkPingPong measures half a round trip of 64 bytes between two NICs of
// this process, which share its processors with the Go runtime; bobnet perf
// measures between processes.
func BenchmarkPingPong(b *testing.B) {
	for _, level := range levels {
		for _, spin := range []time.Duration{time.Second, -1} {
			name := level.String() + "/spin"
			if spin < 0 {
				name = level.String() + "/block"
			}
			b.Run(name, func(b *testing.B) { benchPingPong(b, level, spin, 64) })
		}
	}
}

func benchPingPong(b *testing.B, level reliability.Level, spin time.Duration, size int) {
	x, y := join(b, vethNICs(b, 1500, vipl.Config{Spin: spin}, nil), &vipl.Attributes{Reliability: level})
	go echoer(y, size)
	in, _ := newBuffers(x.NIC(), 8, size)
	out, _ := newBuffers(x.NIC(), 8, size)
	for i := range in.descs {
		x.PostRecv(&in.descs[i])
	}
	runtime.GC()
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		if i >= len(out.descs) {
			if _, err := x.SendWait(bg); err != nil {
				b.Fatal(err, x.Err())
			}
		}
		if err := x.PostSend(&out.descs[i%len(out.descs)]); err != nil {
			b.Fatal(err)
		}
		d, err := x.RecvWait(bg)
		if err != nil {
			b.Fatal(err, x.Err())
		}
		x.PostRecv(d)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(2*b.N), "ns/one-way")
}
