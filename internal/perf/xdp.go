package perf

import (
	"slices"

	"github.com/bobnet-go/bobnet/transport/ring"
)

// XDPs are the choices of how the link "ring" sends; see ring.Choice.
var XDPs = []string{ring.Auto.String(), ring.On.String(), ring.Off.String()}

// withXDP makes a case of each choice of the plan's out of every case on the
// link "ring". The first choice, auto, is a Case's "".
func (p *Plan) withXDP(cases []Case) []Case {
	var all []Case
	for _, c := range cases {
		if c.Link != "ring" {
			all = append(all, c)
			continue
		}
		for _, choice := range XDPs {
			if slices.Contains(p.XDP, choice) {
				c.XDP = choice
				if choice == XDPs[0] {
					c.XDP = ""
				}
				all = append(all, c)
			}
		}
	}
	return all
}

// ringConfig returns how to open the link "ring" for c. The stack raw is the
// measure of the others: it goes the plain way, sendmmsg to ring, unless the
// plan says how it sends.
func (c Case) ringConfig(iface string) (*ring.Config, error) {
	cfg := &ring.Config{Interface: iface}
	if c.Stack == "raw" {
		cfg.Bulk, cfg.XDP = ring.Off, ring.Off
	}
	if c.XDP == "" {
		return cfg, nil
	}
	var err error
	cfg.XDP, err = ring.ParseChoice(c.XDP)
	return cfg, err
}
