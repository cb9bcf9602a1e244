package packet_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/link/linktest"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/packet"
	"github.com/bobnet-go/bobnet/transport/ring"
)

// open opens a packet link on one side of p and closes it when the test ends.
func open(t *testing.T, p *vethtest.Pair, side int) transport.Link {
	t.Helper()
	return keep(t, p, side, func() (transport.Link, error) {
		return packet.Open(t.Context(), &packet.Config{Interface: vethtest.Name})
	})
}

// openRing opens a ring link on one side of p.
func openRing(t *testing.T, p *vethtest.Pair, side int) transport.Link {
	t.Helper()
	return keep(t, p, side, func() (transport.Link, error) {
		return ring.Open(t.Context(), &ring.Config{Interface: vethtest.Name, Slots: 64})
	})
}

func keep(t *testing.T, p *vethtest.Pair, side int, open func() (transport.Link, error)) (l transport.Link) {
	t.Helper()
	err := p.In(side, func() (err error) {
		l, err = open()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func TestLink(t *testing.T) {
	for _, mtu := range []int{68, 1500, 65535} {
		t.Run(fmt.Sprint(mtu), func(t *testing.T) {
			if testing.Short() && mtu != 1500 {
				t.Skip("-short: MTU 1500 only")
			}
			p := vethtest.New(t, mtu)
			linktest.Run(t, func(t *testing.T) linktest.Pair {
				return linktest.Pair{A: open(t, p, 0), B: open(t, p, 1), C: open(t, p, 1)}
			})
		})
	}
}

// TestAgainstRing runs each driver against the other.
func TestAgainstRing(t *testing.T) {
	p := vethtest.New(t, 1500)
	t.Run("FromPacket", func(t *testing.T) {
		linktest.Run(t, func(t *testing.T) linktest.Pair {
			return linktest.Pair{A: open(t, p, 0), B: openRing(t, p, 1), C: open(t, p, 1)}
		})
	})
	t.Run("FromRing", func(t *testing.T) {
		linktest.Run(t, func(t *testing.T) linktest.Pair {
			return linktest.Pair{A: openRing(t, p, 0), B: open(t, p, 1), C: openRing(t, p, 1)}
		})
	})
}

// TestDrops fills the socket's buffer until the kernel counts a drop, and then
// accounts for every frame.
func TestDrops(t *testing.T) {
	p := vethtest.New(t, 9000)
	a, b := open(t, p, 0), open(t, p, 1)
	f := linktest.NewFrame(a.Info(), b.Info(), b.Info().Ports.Lo, make([]byte, 8000))
	sent := 0
	for ; b.Stats().RxDrops == 0; sent++ {
		if n, err := a.Send([]transport.Frame{{Head: f}}); n != 1 || err != nil || sent > 1<<20 {
			t.Fatalf("Send = %d, %v after %d frames", n, err, sent)
		}
	}
	views, got := make([][]byte, transport.MaxBatch), 0
	for end := b.Now() + int64(10*time.Second); got+int(b.Stats().RxDrops) < sent; {
		n, err := b.Recv(views)
		if err != nil || b.Now() > end {
			t.Fatalf("sent %d, received %d (%v), counted %+v", sent, got, err, b.Stats())
		}
		got += n
	}
	if got+int(b.Stats().RxDrops) != sent {
		t.Errorf("sent %d, received %d, counted %+v", sent, got, b.Stats())
	}
}

// TestTruncated lowers nothing but raises the MTU after the link was opened.
func TestTruncated(t *testing.T) {
	p := vethtest.New(t, 1500)
	b := open(t, p, 1)
	for side := range 2 {
		if err := p.SetMTU(side, 9000); err != nil {
			t.Fatal(err)
		}
	}
	a := open(t, p, 0)
	f := linktest.NewFrame(a.Info(), b.Info(), b.Info().Ports.Lo, make([]byte, 4000))
	if n, err := a.Send([]transport.Frame{{Head: f}}); n != 1 || err != nil {
		t.Fatalf("Send = %d, %v", n, err)
	}
	for end := b.Now() + int64(10*time.Second); b.Stats().RxTruncated == 0; {
		if n, err := b.Recv(make([][]byte, 1)); n != 0 || err != nil || b.Now() > end {
			t.Fatalf("Recv = %d, %v; counted %+v", n, err, b.Stats())
		}
	}
}

// TestDown switches the interface off under an open link.
func TestDown(t *testing.T) {
	p := vethtest.New(t, 1500)
	a := open(t, p, 0)
	done := make(chan error, 1)
	go func() { done <- a.Wait(transport.Forever) }()
	if err := p.SetUp(0, false); err != nil {
		t.Fatal(err)
	}
	if err := <-done; !errors.Is(err, transport.ErrLinkDown) {
		t.Errorf("Wait = %v, want ErrLinkDown", err)
	}
	f := linktest.NewFrame(a.Info(), a.Info(), 1024, nil)
	if n, err := a.Send([]transport.Frame{{Head: f}}); n != 0 || !errors.Is(err, transport.ErrLinkDown) {
		t.Errorf("Send = %d, %v; want 0, ErrLinkDown", n, err)
	}
}
