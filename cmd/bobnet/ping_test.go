package main

import (
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
)

func TestPingStats(t *testing.T) {
	var s pingStats
	if got := s.String(); got != "0 sent, 0 answered" {
		t.Errorf("no echo: %q", got)
	}
	s.cut = true
	if got := s.String(); got != "0 sent, 0 answered, one in flight when interrupted" {
		t.Errorf("the first echo was interrupted: %q", got)
	}
	s.cut = false
	for _, us := range []int{10, 20, 30} {
		s.record(time.Duration(us)*time.Microsecond, true)
	}
	s.record(time.Second, false)
	want := "4 sent, 3 answered, 25% lost\nround trip min/avg/max/mdev = 10.0/20.0/30.0/8.2 us"
	if got := s.String(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestPingTarget: a MAC address is the whole NIC there; everything else is what
// perf.Resolve makes of it.
func TestPingTarget(t *testing.T) {
	mac := ethertype.MAC{2, 0, 0, 0, 0, 9}
	for text, want := range map[string]ethertype.Addr{
		mac.String():        {MAC: mac, Port: ethertype.PortAll},
		mac.String() + "/7": {MAC: mac, Port: 7},
	} {
		if got, err := pingTarget(t.Context(), nil, text); got != want || err != nil {
			t.Errorf("%q: %v, %v, want %v", text, got, err, want)
		}
	}
}
