package perf

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/bobnet-go/bobnet/transport/ring"
)

// choice is what a case's way means to the link.
func choice(way string) ring.Choice {
	c, err := ring.ParseChoice(way)
	if err != nil {
		return ring.Auto
	}
	return c
}

func TestWays(t *testing.T) {
	p := Plan{Stacks: []string{"raw", "vipl", "tcp"}, Tests: []string{Rate}, Waits: []string{Spin}, Levels: Levels[:1], Links: []string{"ring", "packet"},
		XDP: []string{"off", "auto"}, Long: []string{"auto", "off"}}
	var got []string
	for _, c := range p.Cases(1500) {
		got = append(got, strings.TrimSpace(c.Stack+" "+c.Link+" "+c.Ways.String()))
		if c.Link != "ring" {
			continue
		}
		want := ring.Config{Interface: "eth0", XDP: choice(c.XDP), Long: choice(c.Long)}
		if c.Stack == "raw" { // by default the plain way
			want.XDP, want.Long = ring.Off, ring.Off
		}
		cfg, err := c.ringConfig("eth0")
		if err != nil || *cfg != want {
			t.Errorf("%v: %+v, %v; want %+v", c, cfg, err, want)
		}
	}
	want := []string{"raw ring", "raw ring xdp=off", "raw packet",
		"vipl ring", "vipl ring long=off", "vipl ring xdp=off", "vipl ring xdp=off/long=off", "vipl packet", "tcp"}
	if !slices.Equal(got, want) {
		t.Errorf("cases\n%q, want\n%q", got, want)
	}
	c := Case{Stack: "raw", Link: "ring", Ways: Ways{XDP: "on"}}
	if cfg, err := c.ringConfig("eth0"); err != nil || cfg.XDP != ring.On {
		t.Errorf("raw with AF_XDP: %+v, %v", cfg, err)
	}
}

func TestWaysByDefault(t *testing.T) {
	for _, c := range (Plan{Tests: []string{Rate}}).Cases(1500) {
		if c.Ways != (Ways{}) {
			t.Errorf("%v takes a way by default", c)
		}
	}
	for _, p := range []Plan{{XDP: []string{"sometimes"}}, {Long: []string{"sometimes"}}} {
		if err := p.Validate(); !errors.Is(err, ErrPlan) {
			t.Errorf("Validate of %+v = %v", p, err)
		}
	}
}

// TestSealedWays: with a key, vipl over the ring is measured plain and sealed, and nothing
// else is.
func TestSealedWays(t *testing.T) {
	p := Plan{Stacks: []string{"raw", "vipl", "mplite"}, Tests: []string{Latency}, Waits: []string{Spin}, Levels: Levels[:1], Links: []string{"ring", "packet"}, Sealed: true}
	var got []string
	for _, c := range p.Cases(9000) {
		got = append(got, strings.TrimSpace(c.Stack+" "+c.Link+" "+c.Ways.String()))
		if (c.key() != nil) != (c.Seal == "on") {
			t.Errorf("%v has a key: %v", c, c.key() != nil)
		}
	}
	want := []string{"raw ring", "raw packet", "vipl ring", "vipl ring seal=on", "vipl packet", "mplite ring", "mplite packet"}
	if !slices.Equal(got, want) {
		t.Errorf("cases\n%q, want\n%q", got, want)
	}
}
