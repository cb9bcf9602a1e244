package sim

import (
	"fmt"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/transport"
)

// BenchmarkFrames has each station send batches to the next one and receive
// what comes. ns/op is the cost of one frame from Send to Recv.
func BenchmarkFrames(b *testing.B) {
	for _, stations := range []int{2, 16, 256} {
		for _, size := range []int{64, 1514} {
			b.Run(fmt.Sprintf("stations=%d/size=%d", stations, size), func(b *testing.B) {
				b.ReportAllocs()
				w := ring(stations, size, b.N/stations+1, Options{Bandwidth: 1e9, Jitter: 50 * time.Microsecond, Queue: 1 << 20})
				if err := w.Run(); err != nil {
					b.Fatal(err)
				}
			})
		}
	}
}

// ring returns a world in which every station sends frames to the next one,
// 16 at a time, and receives until all of them have come.
func ring(stations, size, frames int, opts Options) *World {
	opts.Limit = 1000 * time.Hour
	w := New(opts)
	links := make([]*Station, stations)
	for i := range links {
		links[i] = w.Station("")
	}
	for i, s := range links {
		w.Go("", func() { pump(s, links[(i+1)%stations], size, frames) })
	}
	return w
}

func pump(s, next *Station, size, frames int) {
	batch := make([]transport.Frame, 16)
	for i := range batch {
		batch[i] = to(s, next.MAC(), size, uint32(i))
	}
	views := make([][]byte, 64)
	for sent, got := 0, 0; got < frames; {
		if sent < frames && sent-got < 64 {
			n, _ := s.Send(batch[:min(len(batch), frames-sent)])
			sent += n
		}
		s.Wait(transport.Forever)
		n, _ := s.Recv(views)
		got += n
	}
}

// BenchmarkPingPong is one frame that goes back and forth: two turns of
// processes and two deliveries.
func BenchmarkPingPong(b *testing.B) {
	b.ReportAllocs()
	w := New(Options{Limit: 1000 * time.Hour})
	x, y := w.Station("x"), w.Station("y")
	views := make([][]byte, 1)
	player := func(me, other *Station, first bool) func() {
		ball := []transport.Frame{to(me, other.MAC(), 64, 0)}
		return func() {
			if first {
				me.Send(ball)
			}
			for range b.N {
				me.Wait(transport.Forever)
				me.Recv(views)
				me.Send(ball)
			}
		}
	}
	w.Go("x", player(x, y, true))
	w.Go("y", player(y, x, false))
	if err := w.Run(); err != nil {
		b.Fatal(err)
	}
}
