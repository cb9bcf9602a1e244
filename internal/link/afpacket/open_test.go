package afpacket_test

import (
	"encoding/binary"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/internal/link/linktest"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/packet"
	"github.com/bobnet-go/bobnet/transport/ring"
)

// ours are the ports of the links that are opened, alien one of nobody.
var ours = transport.PortRange{Lo: 5 * 1024, Hi: 6*1024 - 1}

const alien = 40_000

// TestOpenUnderFlood opens links again and again while frames to their ports and
// to another one come without a pause. Nothing but the former ever arrives: the
// filter is there before the first frame.
func TestOpenUnderFlood(t *testing.T) {
	for name, open := range map[string]func() (transport.Link, error){
		"ring": func() (transport.Link, error) {
			return ring.Open(t.Context(), &ring.Config{Interface: vethtest.Name, Ports: ours, XDP: ring.Off})
		},
		"packet": func() (transport.Link, error) {
			return packet.Open(t.Context(), &packet.Config{Interface: vethtest.Name, Ports: ours})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := vethtest.New(t, 1500)
			opened := func() (l transport.Link) {
				t.Helper()
				if err := p.In(0, func() (err error) { l, err = open(); return err }); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { l.Close() })
				return l
			}
			first := opened()
			to := first.Info()
			first.Close()
			flood(t, p, to)
			for range 12 {
				l := opened()
				firstFrames(t, l)
				l.Close()
			}
		})
	}
}

// flood sends frames to a station that nobody may be, until the test ends.
func flood(t *testing.T, p *vethtest.Pair, to transport.Info) {
	t.Helper()
	var l transport.Link
	if err := p.In(1, func() (err error) {
		l, err = packet.Open(t.Context(), &packet.Config{Interface: vethtest.Name})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	batch := make([]transport.Frame, transport.MaxBatch)
	for i := range batch {
		port := ours.Lo
		if i%2 == 0 {
			port = alien
		}
		batch[i].Head = linktest.NewFrame(l.Info(), to, port, make([]byte, 20))
	}
	var stop atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		for !stop.Load() {
			if _, err := l.Send(batch); err != nil {
				t.Error(err)
				return
			}
		}
	})
	t.Cleanup(func() {
		stop.Store(true)
		wg.Wait()
		l.Close()
	})
}

// firstFrames receives the first frames of a link and wants them to be its own.
func firstFrames(t *testing.T, l transport.Link) {
	t.Helper()
	views := make([][]byte, transport.MaxBatch)
	end := l.Now() + int64(20*time.Second)
	for got := 0; got < 500; {
		n, err := l.Recv(views)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range views[:n] {
			if port := binary.BigEndian.Uint16(v[framing.OffsetDstPort:]); !ours.Contains(port) {
				t.Fatalf("a frame to port %d has come, after %d to the ports %v", port, got, ours)
			}
			got++
		}
		if l.Now() > end {
			t.Fatalf("%d frames have come", got)
		}
		if n == 0 {
			if err := l.Wait(end); err != nil {
				t.Fatal(err)
			}
		}
	}
}
