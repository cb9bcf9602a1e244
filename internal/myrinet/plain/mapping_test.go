package plain_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/myrinet/hardware"
	"github.com/bobnet-go/bobnet/internal/myrinet/plain"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/myrinet"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// everybody sends a frame from each link to each other one and checks that all come.
func everybody(t testing.TB, links []transport.Link, settle func()) {
	t.Helper()
	s := &segment{t: t}
	for _, a := range links {
		for _, b := range links {
			if a != b {
				s.send(a, b.Info().MAC, b.Info().Ports.Lo, a.Info().MAC.String())
			}
		}
	}
	s.send(links[0], ethertype.Broadcast, ethertype.PortAll, "all")
	settle()
	for i, l := range links {
		want := len(links)
		if i == 0 {
			want--
		}
		if got := s.got(l); len(got) != want {
			t.Errorf("host %d got %q", i, got)
		}
	}
}

// TestMapped: hosts that know nothing of the fabric find each other by the mapper, and
// again when a switch between them has died and another way has come.
func TestMapped(t *testing.T) {
	s := newSegment(t, myrinet.Options{})
	x, y := s.f.Switch("x"), s.f.Switch("y")
	s.join(x.Port(7), y.Port(0))
	var links []transport.Link
	for i := range 5 {
		sw := []*myrinet.Switch{x, y}[i%2]
		l, _ := s.host(i, plain.Config{
			Card:   myrinet.CardConfig{Timing: myrinet.SBusTiming()},
			Mapper: &myrinet.MapperOptions{Name: fmt.Sprint("h", i), Seed: uint64(i) + 1, Period: 10 * time.Millisecond, Timeout: 200 * time.Microsecond},
		}, sw.Port(1+i/2))
		links = append(links, l)
	}
	second := func() {
		for range 10 {
			s.settle()
		}
	}
	second()
	everybody(t, links, s.settle)
	s.join(x.Port(6), y.Port(6))
	y.Fail()
	second()
	y.Restore()
	second()
	everybody(t, links, s.settle)
	leaders := 0
	for i, l := range links {
		snap := snapshot(l)
		if snap.Stations != 5 && snap.Stations != 4 {
			t.Errorf("host %d has routes to %d stations", i, snap.Stations)
		}
		if snap.Mapper.Leading {
			leaders++
		}
		if snap.Card.Stats.Dropped() != 0 {
			t.Logf("host %d: %+v", i, snap.Card.Stats)
		}
	}
	if leaders != 1 {
		t.Errorf("%d hosts lead", leaders)
	}
}

// TestMappedCable: two hosts at a direct cable talk before they are mapped, and after.
func TestMappedCable(t *testing.T) {
	s := newSegment(t, myrinet.Options{})
	a, b := s.pair(plain.Config{Mapper: &myrinet.MapperOptions{Seed: 1, Period: 10 * time.Millisecond}})
	links := []transport.Link{a, b}
	everybody(t, links, func() {
		if err := s.w.Sleep(time.Millisecond); err != nil {
			t.Fatal(err)
		}
	})
	s.settle()
	everybody(t, links, s.settle)
	if n := snapshot(a).Mapper.Routes + snapshot(b).Mapper.Routes; n != 2 {
		t.Errorf("the two have %d routes", n)
	}
}

// TestMappedLive: cards on live cables, over simulated stations, find each other through
// two live switches.
func TestMappedLive(t *testing.T) {
	w := sim.New(sim.Options{Seed: 4})
	end := func() (a, b *sim.Station) {
		a = w.StationWith(sim.StationOptions{EtherType: ethertype.Fabric, Ports: hardware.CablePorts})
		b = w.StationWith(sim.StationOptions{EtherType: ethertype.Fabric, Ports: hardware.CablePorts})
		w.Isolate(a, b)
		return a, b
	}
	ports := [2][]transport.Link{make([]transport.Link, 4), make([]transport.Link, 4)}
	joinX, joinY := end()
	ports[0][3], ports[1][0] = joinX, joinY
	var links []transport.Link
	for i := range 4 {
		card, port := end()
		l, err := plain.Join(card, &plain.Config{Mapper: &myrinet.MapperOptions{Seed: uint64(i) + 1, Period: 20 * time.Millisecond, Timeout: time.Millisecond}}, myrinet.LiveOptions{Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		ports[i%2][1+i/2] = port
		links = append(links, l)
	}
	for i := range ports {
		sw, err := hardware.NewLiveSwitch(fmt.Sprint("s", i), ports[i], myrinet.LiveOptions{Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		for k := range ports[i] {
			if ports[i][k] != nil {
				w.Go("", func() { _ = sw.Drive(k) })
			}
		}
	}
	settle := func() {
		for end := w.Now() + int64(300*time.Millisecond); w.Now() < end; {
			for _, l := range links {
				if _, err := l.Recv(nil); err != nil { // it drives the card
					t.Fatal(err)
				}
			}
			if err := w.Sleep(100 * time.Microsecond); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 10 {
		settle()
	}
	everybody(t, links, settle)
}
