package ring_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/link/linktest"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/ring"
	"golang.org/x/sys/unix"
)

// try opens a link on one side of p.
func try(p *vethtest.Pair, side int, cfg ring.Config) (l *ring.Link, err error) {
	cfg.Interface = vethtest.Name
	err = p.In(side, func() (err error) {
		l, err = ring.Open(context.Background(), &cfg)
		return err
	})
	return l, err
}

// open opens a link on one side of p and closes it when the test ends.
func open(t testing.TB, p *vethtest.Pair, side int, cfg ring.Config) *ring.Link {
	t.Helper()
	l, err := try(p, side, cfg)
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
				return linktest.Pair{
					A: open(t, p, 0, ring.Config{}),
					B: open(t, p, 1, ring.Config{Slots: 64}),
					C: open(t, p, 1, ring.Config{Slots: 64}),
				}
			})
		})
	}
}

// TestOtherEtherType: frames of another EtherType of the house pass as those of
// the first.
func TestOtherEtherType(t *testing.T) {
	p := vethtest.New(t, 1500)
	cfg := ring.Config{EtherType: 0x88b6}
	linktest.Run(t, func(t *testing.T) linktest.Pair {
		return linktest.Pair{A: open(t, p, 0, cfg), B: open(t, p, 1, cfg), C: open(t, p, 1, cfg)}
	})
}

// TestRingWraps goes round a small ring many times, with batches that do not
// divide it.
func TestRingWraps(t *testing.T) {
	p := vethtest.New(t, 1500)
	a, b := open(t, p, 0, ring.Config{}), open(t, p, 1, ring.Config{Slots: 64})
	views := make([][]byte, transport.MaxBatch)
	for i := range uint16(2000) {
		f := linktest.NewFrame(a.Info(), b.Info(), b.Info().Ports.Lo, []byte{byte(i), byte(i >> 8)})
		batch := []transport.Frame{{Head: f}, {Head: f}, {Head: f}, {Head: f}, {Head: f}}
		if n, err := a.Send(batch); n != len(batch) || err != nil {
			t.Fatalf("Send = %d, %v", n, err)
		}
		for got := 0; got < len(batch); {
			n, err := b.Recv(views)
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range views[:n] {
				if string(v) != string(f) {
					t.Fatalf("round %d: got %x, want %x", i, v, f)
				}
			}
			if got += n; n == 0 && b.Wait(b.Now()+int64(10*time.Second)) != nil {
				t.Fatal("Wait failed")
			}
		}
	}
	if n, err := b.Recv(views); n != 0 || err != nil {
		t.Errorf("Recv of an empty ring: %d, %v", n, err)
	}
	if st := b.Stats(); st.RxDrops != 0 || st.RxFrames != 10000 {
		t.Errorf("counters: %+v", st)
	}
}

// TestTruncated sends a frame that is longer than the receiver's slots,
// because its MTU was raised after the link was opened.
func TestTruncated(t *testing.T) {
	p := vethtest.New(t, 1500)
	b := open(t, p, 1, ring.Config{})
	for side := range 2 {
		if err := p.SetMTU(side, 9000); err != nil {
			t.Fatal(err)
		}
	}
	a := open(t, p, 0, ring.Config{})
	long := linktest.NewFrame(a.Info(), b.Info(), b.Info().Ports.Lo, make([]byte, 4000))
	short := linktest.NewFrame(a.Info(), b.Info(), b.Info().Ports.Lo, []byte("short"))
	if n, err := a.Send([]transport.Frame{{Head: long}, {Head: short}, {Head: long}}); n != 3 || err != nil {
		t.Fatalf("Send = %d, %v", n, err)
	}
	views, got := make([][]byte, 4), 0
	for deadline := b.Now() + int64(10*time.Second); b.Stats().RxTruncated < 2; {
		n, err := b.Recv(views)
		if err != nil {
			t.Fatal(err)
		}
		if n == 1 && string(views[0]) != string(short) || n > 1 {
			t.Fatalf("received %d frames, %x", n, views[0])
		}
		got += n
		if n > 0 || b.Stats().RxTruncated == 2 { // the Recv that finds nothing counts
			continue
		}
		if err := b.Wait(deadline); err != nil || b.Now() >= deadline {
			t.Fatalf("after 10 s: %v, %+v", err, b.Stats())
		}
	}
	if got != 1 {
		t.Errorf("received %d short frames, want 1", got)
	}
}

// TestDown switches the interface off and on under open links.
func TestDown(t *testing.T) {
	p := vethtest.New(t, 1500)
	a := open(t, p, 0, ring.Config{})
	f := transport.Frame{Head: linktest.NewFrame(a.Info(), a.Info(), 1024, nil)}
	done := make(chan error, 1)
	go func() { done <- a.Wait(transport.Forever) }()
	if err := p.SetUp(0, false); err != nil {
		t.Fatal(err)
	}
	if err := <-done; !errors.Is(err, transport.ErrLinkDown) {
		t.Errorf("Wait = %v, want ErrLinkDown", err)
	}
	if n, err := a.Send([]transport.Frame{f}); n != 0 || !errors.Is(err, transport.ErrLinkDown) {
		t.Errorf("Send = %d, %v; want 0, ErrLinkDown", n, err)
	}
	if _, err := try(p, 0, ring.Config{}); !errors.Is(err, transport.ErrInterface) ||
		!strings.Contains(fmt.Sprint(err), "ip link set bob0 up") {
		t.Errorf("Open = %v, want ErrInterface and advice", err)
	}
	if err := p.SetUp(0, true); err != nil {
		t.Fatal(err)
	}
	if n, err := a.Send([]transport.Frame{f}); n != 1 || err != nil {
		t.Errorf("Send = %d, %v after the interface came back", n, err)
	}
	if err := p.Delete(); err != nil {
		t.Fatal(err)
	}
	if n, err := a.Send([]transport.Frame{f}); n != 0 || !errors.Is(err, transport.ErrGone) {
		t.Errorf("Send = %d, %v after the interface was removed; want 0, ErrGone", n, err)
	}
}

// TestPorts claims overlapping ports.
func TestPorts(t *testing.T) {
	p := vethtest.New(t, 1500)
	first := open(t, p, 0, ring.Config{})
	if got, want := first.Info().Ports, (transport.PortRange{Lo: 1024, Hi: 2047}); got != want {
		t.Errorf("the first link has ports %v, want %v", got, want)
	}
	second := open(t, p, 0, ring.Config{})
	if got, want := second.Info().Ports, (transport.PortRange{Lo: 2048, Hi: 3071}); got != want {
		t.Errorf("the second link has ports %v, want %v", got, want)
	}
	open(t, p, 0, ring.Config{Ports: transport.PortRange{Lo: 7, Hi: 9}})
	open(t, p, 0, ring.Config{EtherType: 0x88b6, Ports: transport.PortRange{Lo: 1024, Hi: 1024}})
	_, err := try(p, 0, ring.Config{Ports: transport.PortRange{Lo: 2000, Hi: 2000}})
	if !errors.Is(err, unix.EADDRINUSE) || !strings.Contains(fmt.Sprint(err), "overlap ports 1024..2047, which this process has") {
		t.Errorf("overlapping ports: %v", err)
	}
	if _, err := try(p, 0, ring.Config{Ports: transport.AllPorts}); !errors.Is(err, unix.EADDRINUSE) {
		t.Errorf("all ports: %v", err)
	}
	open(t, p, 1, ring.Config{Ports: transport.AllPorts})
	if _, err := try(p, 1, ring.Config{}); !errors.Is(err, unix.EADDRINUSE) {
		t.Errorf("no block left: %v", err)
	}
	for _, bad := range []transport.PortRange{{Lo: 0, Hi: 5}, {Lo: 9, Hi: 8}} {
		if _, err := try(p, 0, ring.Config{Ports: bad}); !errors.Is(err, unix.EINVAL) {
			t.Errorf("ports %v: %v", bad, err)
		}
	}
	first.Close()
	if third := open(t, p, 0, ring.Config{}); third.Info().Ports.Lo != 1024 {
		t.Errorf("ports after Close: %v, want those that became free", third.Info().Ports)
	}
}

func TestEtherTypeTooSmall(t *testing.T) {
	if _, err := ring.Open(t.Context(), &ring.Config{EtherType: 0x05ff}); !errors.Is(err, unix.EINVAL) {
		t.Errorf("Open = %v, want EINVAL", err)
	}
}

// TestQdiscBypass sends past the traffic control layer.
func TestQdiscBypass(t *testing.T) {
	p := vethtest.New(t, 9000)
	linktest.Run(t, func(t *testing.T) linktest.Pair {
		return linktest.Pair{
			A: open(t, p, 0, ring.Config{QdiscBypass: true}),
			B: open(t, p, 1, ring.Config{Slots: 64, QdiscBypass: true}),
		}
	})
}

// TestNoLeak opens and closes links and counts descriptors.
func TestNoLeak(t *testing.T) {
	p := vethtest.New(t, 1500)
	count := func() int {
		fds, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(fds)
	}
	cycle := func() {
		l, err := try(p, 0, ring.Config{})
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
		if _, err := try(p, 0, ring.Config{Ports: transport.PortRange{Lo: 3, Hi: 2}}); err == nil {
			t.Fatal("bad ports were accepted")
		}
	}
	cycle()
	before := count()
	for range 20 {
		cycle()
	}
	if after := count(); after != before {
		t.Errorf("%d descriptors after 20 links, %d before", after, before)
	}
}
