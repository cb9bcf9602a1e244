package main

import (
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

func TestPingStats(t *testing.T) {
	var s pingStats
	if got := s.String(); got != "0 sent, 0 answered" {
		t.Errorf("no echo: %q", got)
	}
	s.cut = true
	if got := s.String(); got != "0 sent, 0 answered, and one under way when interrupted" {
		t.Errorf("the first echo was interrupted: %q", got)
	}
	s.cut = false
	for _, us := range []int{10, 20, 30} {
		s.add(time.Duration(us)*time.Microsecond, true)
	}
	s.add(time.Second, false)
	want := "4 sent, 3 answered, 25% lost\nround trip min/avg/max/mdev = 10.0/20.0/30.0/8.2 us"
	if got := s.String(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestPingTarget: the target may be an address, a MAC address or a name, and when
// it is nothing of that the error names what an address lacks.
func TestPingTarget(t *testing.T) {
	w := sim.New(sim.Options{Seed: 1})
	link := w.Station("a")
	w.Go("a", func() {
		nic, err := vipl.Open(&vipl.Config{Link: link, Seed: 1})
		if err != nil {
			t.Error(err)
			return
		}
		defer nic.Close()
		if err := nic.Advertise("ping/a", nic.Addr()); err != nil {
			t.Error(err)
		}
		mac := ethertype.MAC{2, 0, 0, 0, 0, 9}
		for text, want := range map[string]ethertype.Addr{
			mac.String():        {MAC: mac, Port: ethertype.PortAll},
			mac.String() + "/7": {MAC: mac, Port: 7},
			"ping/a":            nic.Addr(),
		} {
			if got, err := pingTarget(t.Context(), nic, text); got != want || err != nil {
				t.Errorf("%q: %v, %v, want %v", text, got, err, want)
			}
		}
		_, err = pingTarget(t.Context(), nic, mac.String()+"/99999")
		if err == nil || !strings.Contains(err.Error(), `port "99999" is not in 0..65535`) {
			t.Errorf("a port that is none: %v", err)
		}
	})
	if err := w.Run(); err != nil {
		t.Fatal(err)
	}
}
