package nodeagent

import (
	"slices"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/link/linktest"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/ring"
)

// benchTrips is how many round trips a sample has.
const benchTrips = 100

// BenchmarkSocket sends frames of 64 bytes of data back and forth between two links, with
// sockets of their own, with an agent's, and with those of an agent that does not judge what
// is sent, in turns, on one goroutine, so that nothing is measured but the cost of the way. It
// prints the medians and their ratios.
//
//	go test ./internal/nodeagent -run '^$' -bench Socket -benchtime 5000x
func BenchmarkSocket(b *testing.B) {
	p := vethtest.New(b, 1500)
	names := []string{"own", "guarded", "unguarded"}
	links := [][2]*ring.Link{benchLinks(b, p, [2]string{})}
	for _, unguarded := range []bool{false, true} {
		var paths [2]string
		for side := range paths {
			paths[side] = socketPath(b)
			startAgent(b, p, side, testConfig{Path: paths[side], Allow: allow, Unguarded: unguarded})
		}
		links = append(links, benchLinks(b, p, paths))
	}
	times := make([][]time.Duration, len(links))
	for b.Loop() {
		for i := range links {
			start := time.Now()
			if err := roundTrips(links[i]); err != nil {
				b.Fatal(err)
			}
			times[i] = append(times[i], time.Since(start)/benchTrips)
		}
	}
	b.ReportMetric(0, "ns/op") // of a sample of all
	var own float64
	for i, name := range names {
		slices.Sort(times[i])
		median := float64(times[i][len(times[i])/2])
		b.ReportMetric(median, name+"-ns/trip")
		if i == 0 {
			own = median
		} else {
			b.ReportMetric(median/own, name+"/own")
		}
	}
}

// benchLinks opens a link on each side, from the agents at paths, if there are any.
func benchLinks(b *testing.B, p *vethtest.Pair, paths [2]string) (links [2]*ring.Link) {
	b.Helper()
	for side := range links {
		err := p.In(side, func() (err error) {
			links[side], err = ring.Open(b.Context(), &ring.Config{Interface: vethtest.Name, XDP: ring.Off, Agent: paths[side]})
			return err
		})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { links[side].Close() })
	}
	return links
}

// roundTrips sends a frame back and forth.
func roundTrips(links [2]*ring.Link) error {
	var frames [2][]transport.Frame
	for i, l := range links {
		to := links[1-i].Info()
		frames[i] = []transport.Frame{{Head: linktest.NewFrame(l.Info(), to, to.Ports.Lo, make([]byte, 64))}}
	}
	views := make([][]byte, 4)
	for range benchTrips {
		for i, l := range links {
			if _, err := l.Send(frames[i]); err != nil {
				return err
			}
			for n := 0; n == 0; {
				var err error
				if n, err = links[1-i].Recv(views); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
