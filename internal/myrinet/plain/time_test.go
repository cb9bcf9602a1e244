package plain_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/link/linktest"
	"github.com/bobnet-go/bobnet/internal/myrinet/plain"
	"github.com/bobnet-go/bobnet/internal/seedtest"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/myrinet"
)

var seeds = seedtest.Flags("internal/myrinet/plain", 10)

// TestWay adds up what a frame's way from Send to Recv takes: the card of VMMC, one
// switch. The host pays its own part in Wait, and not before.
func TestWay(t *testing.T) {
	model := myrinet.PCITiming()
	for _, size := range []int{64, 1500} {
		s := newSegment(t, myrinet.Options{})
		links := s.star(2, plain.Config{Card: myrinet.CardConfig{Timing: model}})
		a, b := links[0], links[1]
		frame := linktest.NewFrame(a.Info(), b.Info(), b.Info().Ports.Lo, make([]byte, size-62))
		start := s.w.Now()
		if _, err := a.Send([]transport.Frame{{Head: frame}}); err != nil {
			t.Fatal(err)
		}
		if s.w.Now() != start {
			t.Fatal("time has passed in Send")
		}
		if err := b.Wait(transport.Forever); err != nil {
			t.Fatal(err)
		}
		us := float64(time.Microsecond)
		dma := 2*us + float64(size)/116e6*1e9
		wire := 2*25 + 300 + float64(size+3)/160e6*1e9
		want := dma + 2*41/33e6*1e9 + wire + dma + 10*us
		if got := float64(s.w.Now() - start); got < want || got > 1.01*want+100 {
			t.Errorf("a frame of %d bytes took %v ns, want %v", size, got, want)
		}
		s.settle()
		// It has written how many frames there are, and rung.
		before := s.w.Now()
		if err := a.Wait(0); err != nil {
			t.Fatal(err)
		}
		if paid := s.w.Now() - before; paid != 2*int64(model.PIOWrite) {
			t.Errorf("the sender has paid %d ns", paid)
		}
		before = s.w.Now()
		if err := a.Wait(0); err != nil || s.w.Now() != before {
			t.Errorf("the sender pays twice: %v", err)
		}
	}
}

// TestBandwidth: frames behind each other go as fast as the slowest part, the bus, lets
// them: fetching the next one and sending this one overlap.
func TestBandwidth(t *testing.T) {
	s := newSegment(t, myrinet.Options{})
	links := s.star(2, plain.Config{MTU: 4096, Card: myrinet.CardConfig{Timing: myrinet.PCITiming()}})
	a, b := links[0], links[1]
	frame := linktest.NewFrame(a.Info(), b.Info(), b.Info().Ports.Lo, make([]byte, 4096+14-62))
	batch := make([]transport.Frame, 64)
	for i := range batch {
		batch[i].Head = frame
	}
	start := s.w.Now()
	if n, err := a.Send(batch); n != len(batch) || err != nil {
		t.Fatal(n, err)
	}
	views, got := make([][]byte, 64), 0
	for got < len(batch) {
		if err := b.Wait(transport.Forever); err != nil {
			t.Fatal(err)
		}
		n, err := b.Recv(views)
		if err != nil {
			t.Fatal(err)
		}
		got += n
	}
	rate := float64(len(batch)*len(frame)) / float64(s.w.Now()-start) * 1e9
	if rate < 100e6 || rate > 110e6 {
		t.Errorf("%.1f MB/s, want nearly what the bus carries, 110", rate/1e6)
	}
}

// TestScribbledPage: whatever the host writes to its doorbell page, its own frames alone
// suffer: others get what is sent to them, and the card goes on.
func TestScribbledPage(t *testing.T) {
	seeds.Each(t, 20, func(seed uint64) error {
		rng := rand.New(rand.NewPCG(seed, 3))
		s := newSegment(t, myrinet.Options{Seed: seed})
		links := s.star(3, plain.Config{Slots: 16})
		port := links[0].Info().Ports.Lo
		page := plain.PageOf(links[0])
		wild := make([]byte, 12)
		for i := range 50 {
			for k := range wild {
				wild[k] = byte(rng.Uint32() >> rng.IntN(32))
			}
			if err := page.Write(0, wild); err != nil {
				return err
			}
			page.Ring()
			s.send(links[1], mac(0), port, "to the wild one")
			s.send(links[1], mac(2), port, fmt.Sprint(i))
			s.settle()
			if got := s.got(links[2]); len(got) != 1 || got[0] != fmt.Sprint(i) {
				return fmt.Errorf("round %d: another host got %q", i, got)
			}
			s.got(links[0])
		}
		if snapshot(links[0]).BadDoorbells == 0 {
			return fmt.Errorf("nothing was counted: %+v", snapshot(links[0]))
		}
		page.Write(0, make([]byte, 12))
		return nil
	})
}

// TestHostThatLooksAway: a host that does not look loses frames, which are counted, and holds up
// nobody else's.
func TestHostThatLooksAway(t *testing.T) {
	s := newSegment(t, myrinet.Options{})
	links := s.star(3, plain.Config{Slots: 16})
	port := links[0].Info().Ports.Lo
	for i := range 40 {
		s.send(links[1], mac(0), port, "to the first one")
		s.send(links[1], mac(2), port, "to another one")
		if i%8 == 7 {
			s.settle()
			if got := s.got(links[2]); len(got) != 8 {
				t.Fatalf("another host got %d frames of 8", len(got))
			}
		}
	}
	if st := links[0].Stats(); st.RxDrops != 24 || len(s.got(links[0])) != 16 {
		t.Errorf("%+v", st)
	}
	if snap := snapshot(links[0]); snap.Card.Blocked || snap.Card.Stats.SRAMUsed > snap.Card.Stats.SRAMTotal || snap.Received != 16 || !snap.Card.Loaded {
		t.Errorf("%+v", snap)
	}
}

// TestViews: frames that Recv has returned stay as they are while more come than the ring
// holds, until the next Recv.
func TestViews(t *testing.T) {
	s := newSegment(t, myrinet.Options{})
	links := s.star(2, plain.Config{Slots: 4})
	port := links[0].Info().Ports.Lo
	s.send(links[0], mac(1), port, "first")
	s.settle()
	views := make([][]byte, 4)
	if n, err := links[1].Recv(views); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	want := bytes.Clone(views[0])
	for range 20 {
		s.send(links[0], mac(1), port, "after")
		s.settle()
	}
	if !bytes.Equal(views[0], want) {
		t.Errorf("the view has become %q", views[0])
	}
	if got := s.got(links[1]); len(got) != 3 || links[1].Stats().RxDrops != 17 {
		t.Errorf("%d frames are in the ring, %d were dropped", len(got), links[1].Stats().RxDrops)
	}
}
