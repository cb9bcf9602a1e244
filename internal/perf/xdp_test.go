package perf

import (
	"errors"
	"slices"
	"testing"

	"github.com/bobnet-go/bobnet/transport/ring"
)

func TestXDPCases(t *testing.T) {
	p := Plan{Stacks: []string{"raw", "tcp"}, Tests: []string{Rate}, Waits: []string{Spin}, Links: []string{"ring", "packet"},
		XDP: []string{"off", "auto", "on"}}
	var got []string
	for _, c := range p.Cases(1500) {
		got = append(got, c.Stack+" "+c.Link+" "+c.XDP)
		if c.Link != "ring" {
			continue
		}
		cfg, err := c.ringConfig("eth0")
		if err != nil || cfg.Interface != "eth0" || (cfg.XDP == ring.On) != (c.XDP == "on") || cfg.Bulk != ring.Off {
			t.Errorf("%v: %+v, %v", c, cfg, err)
		}
		c.Stack = "vipl"
		if cfg, err := c.ringConfig("eth0"); err != nil || (cfg.XDP == ring.Auto) != (c.XDP == "") || cfg.Bulk != ring.Auto {
			t.Errorf("%v: %+v, %v", c, cfg, err)
		}
	}
	if want := []string{"raw ring ", "raw ring on", "raw ring off", "raw packet ", "tcp  "}; !slices.Equal(got, want) {
		t.Errorf("cases %q, want %q", got, want)
	}
	if got := (Plan{Stacks: []string{"raw"}, Tests: []string{Rate}, Waits: []string{Spin}}).Cases(1500); len(got) != 1 || got[0].XDP != "" {
		t.Errorf("cases of the default: %v", got)
	}
	if err := (Plan{XDP: []string{"sometimes"}}).Validate(); !errors.Is(err, ErrPlan) {
		t.Errorf("Validate = %v", err)
	}
}
