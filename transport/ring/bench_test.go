package ring_test

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/link/linktest"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/ring"
)

// The benchmarks need two processors that nobody else uses. Each prints, as
// line-ns, the time that a cache line takes between the two: figures can be
// compared only where it is about the same.

// lineTime bounces a cache line between two goroutines and returns the median
// one-way time in nanoseconds.
func lineTime() float64 {
	const batches, bounces = 200, 100
	var there, back struct {
		n atomic.Int64
		_ [120]byte
	}
	go func() {
		for i := int64(1); i <= batches*bounces; i++ {
			for there.n.Load() != i {
			}
			back.n.Store(i)
		}
	}()
	samples := make([]float64, batches)
	for b := range samples {
		start := time.Now()
		for i := range int64(bounces) {
			n := int64(b)*bounces + i + 1
			there.n.Store(n)
			for back.n.Load() != n {
			}
		}
		samples[b] = float64(time.Since(start)) / (2 * bounces)
	}
	slices.Sort(samples)
	return samples[batches/2]
}

// patience is how long a benchmark waits for a frame before it gives up.
const patience = int64(10 * time.Second)

// spin receives at least one frame; 0 when stop is set. On a machine that is
// busy with other things it blocks after a while, because the kernel may need
// this processor to deliver the frame.
func spin(l *ring.Link, views [][]byte, stop *atomic.Bool) int {
	start := l.Now()
	for spins := 1; !l.Ready(); spins++ {
		if stop.Load() {
			return 0
		}
		if spins%(1<<14) == 0 {
			if l.Now() > start+patience {
				panic("no frame came; it was lost, or the machine is overloaded")
			}
			if err := l.Wait(l.Now() + int64(time.Millisecond)); err != nil {
				panic(err)
			}
		}
	}
	n, err := l.Recv(views)
	if err != nil {
		panic(err)
	}
	return n
}

// BenchmarkPingPong measures the one-way time of the smallest Ethernet frame,
// spinning.
func BenchmarkPingPong(b *testing.B) {
	p := vethtest.New(b, 1500)
	x, y := open(b, p, 0, ring.Config{}), open(b, p, 1, ring.Config{})
	ping := []transport.Frame{{Head: linktest.NewFrame(x.Info(), y.Info(), y.Info().Ports.Lo, []byte{0, 0})}}
	pong := []transport.Frame{{Head: linktest.NewFrame(y.Info(), x.Info(), x.Info().Ports.Lo, []byte{0, 0})}}
	var stop, never atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		for views := make([][]byte, 1); spin(y, views, &stop) > 0; {
			y.Send(pong)
		}
	}()
	before := lineTime()
	samples := make([]int64, b.N)
	views := make([][]byte, 1)
	b.ResetTimer()
	for i := range samples {
		start := time.Now()
		x.Send(ping)
		spin(x, views, &never)
		samples[i] = int64(time.Since(start))
	}
	b.StopTimer()
	stop.Store(true)
	<-done
	slices.Sort(samples)
	b.ReportMetric(float64(samples[len(samples)/2])/2, "p50-ns")
	b.ReportMetric(float64(samples[len(samples)*99/100])/2, "p99-ns")
	b.ReportMetric((before+lineTime())/2, "line-ns")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkStream measures full frames one way in batches of 32, the payload
// copied out at the receiver, with a window of 64 frames.
func BenchmarkStream(b *testing.B) {
	for _, mtu := range []int{1500, 9000, 65535} {
		b.Run(fmt.Sprint(mtu), func(b *testing.B) { stream(b, mtu) })
	}
}

const window = 64

func stream(b *testing.B, mtu int) {
	p := vethtest.New(b, mtu)
	x, y := open(b, p, 0, ring.Config{}), open(b, p, 1, ring.Config{})
	size := mtu + ethertype.EthernetSize - ethertype.HeaderSize
	data := make([]byte, 2<<20)
	batch := make([]transport.Frame, 32)
	for i := range batch {
		batch[i] = transport.Frame{
			Head: linktest.NewFrame(x.Info(), y.Info(), y.Info().Ports.Lo, nil),
			Body: [][]byte{data[i*size%(len(data)-size):][:size]},
		}
	}
	var never atomic.Bool
	done := make(chan struct{})
	before := lineTime()
	b.SetBytes(int64(mtu + ethertype.EthernetSize))
	b.ResetTimer()
	go func() {
		defer close(done)
		sink(x, y, b.N, size)
	}()
	views := make([][]byte, transport.MaxBatch)
	for sent, acked := 0, 0; acked < b.N; {
		if room := min(window-(sent-acked), b.N-sent, len(batch)); room > 0 {
			n, err := x.Send(batch[:room])
			if err != nil {
				b.Fatal(err)
			}
			sent += n
		}
		if sent-acked == window || sent == b.N {
			n := spin(x, views, &never)
			acked = int(binary.BigEndian.Uint64(views[n-1][ethertype.HeaderSize:]))
		}
	}
	b.StopTimer()
	<-done
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds()/1e3, "kframes/s")
	b.ReportMetric(float64(b.N*(mtu+ethertype.EthernetSize))*8/b.Elapsed().Seconds()/1e9, "Gb/s")
	b.ReportMetric((before+lineTime())/2, "line-ns")
	if st := y.Stats(); st.RxDrops != 0 {
		b.Errorf("dropped %d frames", st.RxDrops)
	}
}

// sink receives total frames at y, copies what is in them and tells x how far
// it is, every quarter of a window.
func sink(x, y *ring.Link, total, size int) {
	var never atomic.Bool
	dst, at := make([]byte, 2<<20), 0
	ack := []transport.Frame{{Head: linktest.NewFrame(y.Info(), x.Info(), x.Info().Ports.Lo, make([]byte, 8))}}
	views := make([][]byte, transport.MaxBatch)
	for got, told := 0, 0; got < total; {
		n := spin(y, views, &never)
		for _, v := range views[:n] {
			at += copy(dst[at:], v[ethertype.HeaderSize:])
			if at+size > len(dst) {
				at = 0
			}
		}
		got += n
		if got-told >= window/4 || got == total {
			binary.BigEndian.PutUint64(ack[0].Head[ethertype.HeaderSize:], uint64(got))
			y.Send(ack)
			told = got
		}
	}
}
