package plain_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/link/linktest"
	"github.com/bobnet-go/bobnet/internal/myrinet/hardware"
	"github.com/bobnet-go/bobnet/internal/myrinet/plain"
	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/myrinet"
	"github.com/bobnet-go/bobnet/transport/ring"
	"github.com/bobnet-go/bobnet/transport/sim"
	"golang.org/x/sys/unix"
)

// connect drives the links until all have found what is at the other end of their cable.
func connect(t testing.TB, links ...transport.Link) {
	t.Helper()
	for end := links[0].Now() + int64(30*time.Second); ; {
		up := 0
		for _, l := range links {
			if err := l.Wait(l.Now() + int64(time.Millisecond)); err != nil {
				t.Fatal(err)
			}
			if l.(interface{ Up() bool }).Up() {
				up++
			}
		}
		if up == len(links) {
			return
		}
		if links[0].Now() > end {
			t.Fatal("the ends of the cable do not find each other")
		}
	}
}

// alone is a link without a mapper, which allocates when it has something to do.
var alone = plain.Config{Routes: []myrinet.HostRoute{{To: ethertype.Broadcast}}}

// TestLiveLink runs the links' suite over a cable between two network namespaces: with
// packets that need long frames, and with others.
func TestLiveLink(t *testing.T) {
	const longMTU = 30 << 10
	tests := []struct{ cable, mtu, want int }{{1500, 0, longMTU}, {9000, 9000 - plain.Overhead, 9000 - plain.Overhead}, {65535, 0, longMTU}}
	if !need.Full() {
		tests = tests[:1]
	}
	for _, test := range tests {
		p := vethtest.New(t, test.cable)
		alone := alone
		alone.MTU = test.mtu
		linktest.Run(t, func(t *testing.T) linktest.Pair {
			var links [2]transport.Link
			for side := range links {
				err := p.In(side, func() (err error) {
					links[side], err = plain.Open(t.Context(), &plain.OpenConfig{Interface: vethtest.Name, Config: alone})
					return err
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			connect(t, links[0], links[1])
			if got := links[0].Info().MTU; got != test.want {
				t.Errorf("the MTU is %d", got)
			}
			return linktest.Pair{A: links[0], B: links[1], Driven: true}
		})
	}
}

// TestLiveLong: a packet that is longer than the MTU of the cable's interfaces is one frame
// between the ends of a veth pair.
func TestLiveLong(t *testing.T) {
	p := vethtest.New(t, 1500)
	var links [2]transport.Link
	for side := range links {
		err := p.In(side, func() (err error) {
			links[side], err = plain.Open(t.Context(), &plain.OpenConfig{Interface: vethtest.Name, Config: alone})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		defer links[side].Close()
	}
	connect(t, links[0], links[1])
	a, b := links[0], links[1]
	size := a.Info().MTU - ethertype.BaseSize
	for end := time.Now().Add(time.Minute); snapshot(a).Cable.Part < size; {
		for _, l := range links {
			if err := l.Wait(l.Now() + int64(time.Millisecond)); err != nil {
				t.Fatal(err)
			}
		}
		if time.Now().After(end) {
			t.Fatalf("the cable does not carry long frames: %+v", snapshot(a).Cable)
		}
	}
	const packets = 100
	before := snapshot(b)
	for i := range packets {
		carries(t, a, b, string(bytes.Repeat([]byte{byte(i)}, size)))
	}
	after := snapshot(b)
	frames := after.Cable.Frames.FramesIn - before.Cable.Frames.FramesIn
	if n := after.Cable.Packets.PacketsIn - before.Cable.Packets.PacketsIn; n != packets || frames > 10*packets {
		t.Errorf("%d packets came in %d frames", n, frames)
	}
}

// cable joins two cards by a live cable over simulated stations.
func cable(t testing.TB, opts sim.Options, cfg *plain.Config) (w *sim.World, a, b transport.Link) {
	w = sim.New(opts)
	var links [2]transport.Link
	for i := range links {
		station := w.StationWith(sim.StationOptions{EtherType: ethertype.Fabric, Ports: hardware.CablePorts})
		var err error
		if links[i], err = plain.Join(station, cfg, myrinet.LiveOptions{Seed: opts.Seed + 1}); err != nil {
			t.Fatal(err)
		}
	}
	connect(t, links[0], links[1])
	return w, links[0], links[1]
}

// TestSimulatedCable runs the links' suite over a live cable between simulated stations.
func TestSimulatedCable(t *testing.T) {
	for name, mtu := range map[string]int{"one frame a packet": 0, "several frames a packet": 4000} {
		t.Run(name, func(t *testing.T) {
			linktest.Run(t, func(t *testing.T) linktest.Pair {
				_, a, b := cable(t, sim.Options{}, &plain.Config{MTU: mtu})
				return linktest.Pair{A: a, B: b, Driven: true}
			})
		})
	}
}

// TestOneCardAnInterface: two cards at one interface are an error that says what to do.
func TestOneCardAnInterface(t *testing.T) {
	p := vethtest.New(t, 1500)
	err := p.In(0, func() error {
		l, err := plain.Open(t.Context(), nil)
		if err != nil {
			return err
		}
		defer l.Close()
		if _, err := plain.Open(t.Context(), &plain.OpenConfig{Interface: vethtest.Name}); !errors.Is(err, unix.EADDRINUSE) ||
			!strings.Contains(err.Error(), "choose another") {
			t.Errorf("two cards at one interface: %v", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestInterfaceGone: a wait ends when the card's interface is gone, and so do later calls.
func TestInterfaceGone(t *testing.T) {
	p := vethtest.New(t, 1500)
	var l transport.Link
	if err := p.In(0, func() (err error) {
		l, err = plain.Open(t.Context(), nil)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ended := make(chan error)
	go func() {
		err := transport.ErrLinkDown
		for errors.Is(err, transport.ErrLinkDown) { // an interface that is deleted goes down first
			err = l.Wait(transport.Forever)
		}
		ended <- err
	}()
	if err := p.Delete(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, transport.ErrGone) {
		t.Errorf("Wait: %v, want ErrGone", err)
	}
	if _, err := l.Recv(make([][]byte, 1)); !errors.Is(err, transport.ErrGone) {
		t.Errorf("Recv: %v, want ErrGone", err)
	}
}

// TestSwitch: three hosts at a live switch, each in a namespace of its own, find each other
// by the mapper, and every frame that they send comes.
func TestSwitch(t *testing.T) {
	if testing.Short() {
		t.Skip("mapping takes some seconds")
	}
	ports := make([]transport.Link, 4)
	links := make([]transport.Link, 3)
	for i := range links {
		p := vethtest.New(t, 1500)
		err := errors.Join(
			p.SetMAC(0, mac(2*i)), p.SetMAC(1, mac(2*i+1)), // every pair has the same ones
			p.In(0, func() (err error) { links[i], err = plain.Open(t.Context(), nil); return err }),
			p.In(1, func() (err error) {
				ports[i], err = ring.Open(t.Context(), &ring.Config{Interface: vethtest.Name, EtherType: ethertype.Fabric, Ports: hardware.CablePorts})
				return err
			}))
		if err != nil {
			t.Fatal(err)
		}
	}
	sw, err := hardware.NewLiveSwitch("s", ports, myrinet.LiveOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var drivers sync.WaitGroup
	for i, port := range ports {
		if port != nil {
			drivers.Go(func() { _ = sw.Drive(i) }) // it ends when the link is closed
		}
	}
	defer func() {
		for _, l := range append(links, ports[:3]...) {
			l.Close()
		}
		drivers.Wait()
	}()
	awaitMap(t, links)
	for i, a := range links {
		for k, b := range links {
			if i != k {
				carries(t, a, b, fmt.Sprint(i, " to ", k))
			}
		}
	}
}

// awaitMap drives the links until each one's card knows the others.
func awaitMap(t *testing.T, links []transport.Link) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; {
		mapped := 0
		for _, l := range links {
			if err := l.Wait(l.Now() + int64(100*time.Microsecond)); err != nil {
				t.Fatal(err)
			}
			if snapshot(l).Stations == len(links) || snapshot(l).Stations == len(links)-1 {
				mapped++
			}
		}
		if mapped == len(links) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the hosts are not mapped: %+v", snapshot(links[0]))
		}
	}
}

// carries sends what from a to b, and drives both until it has come.
func carries(t *testing.T, a, b transport.Link, what string) {
	t.Helper()
	s := &segment{t: t}
	s.send(a, b.Info().MAC, b.Info().Ports.Lo, what)
	for end := time.Now().Add(time.Minute); ; {
		if err := a.Wait(a.Now()); err != nil {
			t.Fatal(err)
		}
		if err := b.Wait(b.Now() + int64(time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		if got := s.got(b); len(got) > 0 {
			if got[0] != what {
				t.Errorf("%q came, want %q", got[0], what)
			}
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%q does not come: %+v", what, snapshot(a))
		}
	}
}

// TestFullRing: frames that a live card's host has no room for are dropped and counted, so that
// they keep no packets of others in the fabric, and those that come later are received.
func TestFullRing(t *testing.T) {
	w, a, b := cable(t, sim.Options{}, &plain.Config{Slots: 4})
	s := &segment{t: t, w: w}
	const frames = 60
	for i := range frames {
		s.send(a, b.Info().MAC, b.Info().Ports.Lo, fmt.Sprint(i))
	}
	next := 0
	for round := range 200 {
		if round == 100 {
			s.send(a, b.Info().MAC, b.Info().Ports.Lo, fmt.Sprint(frames))
		}
		for _, l := range []transport.Link{a, b} {
			if err := l.Wait(l.Now()); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Sleep(100 * time.Microsecond); err != nil {
			t.Fatal(err)
		}
		for _, payload := range s.got(b) {
			if payload != fmt.Sprint(next) {
				t.Fatalf("frame %d says %q", next, payload)
			}
			if next++; next == 4 {
				next = frames
			}
		}
	}
	if st := b.Stats(); next != frames+1 || st.RxDrops != frames-4 {
		t.Errorf("frame %d is to come next: %+v", next, st)
	}
}
