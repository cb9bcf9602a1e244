package perf

import (
	"fmt"
	"os"
	"slices"

	"github.com/bobnet-go/bobnet/transport/ring"
	"github.com/bobnet-go/bobnet/transport/seal"
)

// Ways says how the link "ring" is used, where it has a choice. A way is "on",
// "off", or "" for what the link itself chooses, which plans call "auto".
type Ways struct {
	XDP  string `json:"xdp,omitempty"`  // sends through AF_XDP
	Long string `json:"long,omitempty"` // carries frames beyond the MTU
	Seal string `json:"seal,omitempty"` // frames are sealed under a key: "on" or ""
}

// Choices of the ways; see ring.Choice.
var Choices = []string{ring.Auto.String(), ring.On.String(), ring.Off.String()}

// String names the ways that are not the link's own choice: "xdp=on/long=off".
func (w Ways) String() (text string) {
	for _, way := range []struct{ name, choice string }{{"xdp", w.XDP}, {"long", w.Long}, {"seal", w.Seal}} {
		if way.choice == "" {
			continue
		}
		if text != "" {
			text += "/"
		}
		text += fmt.Sprintf("%s=%s", way.name, way.choice)
	}
	return text
}

// withWays makes a case of each choice of the plan's out of every case on the
// link "ring". The stack raw has no long frames.
func (p *Plan) withWays(cases []Case) []Case {
	var all []Case
	for _, c := range cases {
		if c.Link != "ring" {
			all = append(all, c)
			continue
		}
		for _, c.XDP = range chosen(p.XDP) {
			if c.Stack == "raw" {
				all = append(all, c)
				continue
			}
			for _, c.Long = range chosen(p.Long) {
				all = append(all, p.withSeal(c)...)
			}
		}
	}
	return all
}

// withSeal returns c, and for the stack vipl, if the plan wants it, c with sealed frames.
func (p *Plan) withSeal(c Case) []Case {
	sealed := c
	if sealed.Seal = "on"; p.Sealed && c.Stack == "vipl" {
		return []Case{c, sealed}
	}
	return []Case{c}
}

// EnvKeyFile tells the halves that Local starts which file has the key of the cases whose
// frames are sealed.
const EnvKeyFile = "BOBNET_PERF_KEY_FILE"

// key returns the source of the case's key, nil for the environment's or none.
func (c Case) key() seal.Source {
	if c.Seal == "" {
		return nil
	}
	return seal.File(os.Getenv(EnvKeyFile))
}

// chosen returns those of Choices that are in plan, in their order, in a Case's
// terms.
func chosen(plan []string) (ways []string) {
	for i, choice := range Choices {
		switch {
		case !slices.Contains(plan, choice):
		case i == 0:
			ways = append(ways, "")
		default:
			ways = append(ways, choice)
		}
	}
	return ways
}

// ringConfig returns how to open the link "ring" for c. The stack raw is the
// measure of the others: it goes the plain way, sendmmsg to ring, unless the
// plan says how it sends.
func (c Case) ringConfig(iface string) (*ring.Config, error) {
	cfg := &ring.Config{Interface: iface}
	if c.Stack == "raw" {
		cfg.XDP, cfg.Long = ring.Off, ring.Off
	}
	for _, way := range []struct {
		choice string
		option *ring.Choice
	}{{c.XDP, &cfg.XDP}, {c.Long, &cfg.Long}} {
		if way.choice == "" {
			continue
		}
		var err error
		if *way.option, err = ring.ParseChoice(way.choice); err != nil {
			return nil, err
		}
	}
	return cfg, nil
}
