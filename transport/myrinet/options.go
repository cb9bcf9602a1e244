package myrinet

import (
	"fmt"
	"time"

	"github.com/bobnet-go/bobnet/internal/myrinet/crossbar"
)

// Options configure a fabric in virtual time. The zero value is the paper's: 8 ports, 160 MB/s, no
// errors.
type Options struct {
	Seed uint64 // seed of all random choices

	Ports      int           // ports of each switch, 2 to 32; 0 means 8
	Bandwidth  int64         // bandwidth of a link in one direction, bytes per second; 0 means 160,000,000
	CutThrough time.Duration // time from a head's arrival at a switch to its departure by a free port; 0 means 300 ns
	Cable      time.Duration // signal delay of a cable; 0 means 25 ns, about 5 m
	Slack      int           // buffer of an input in bytes, for one packet at a time; 0 means 128
	Timeout    time.Duration // time after which a blocked packet is broken; each port adds up to a quarter, because no two ports' clocks agree; 0 means 50 ms
	MaxPacket  int           // longest packet in bytes, including route and CRC-8; 0 means 65,536
	BitErrors  float64       // probability that a bit flips on a link
}

const (
	defaultPorts      = 8
	defaultBandwidth  = 160_000_000
	defaultCutThrough = 300 * time.Nanosecond
	defaultCable      = 25 * time.Nanosecond
	defaultSlack      = 128
	defaultTimeout    = 50 * time.Millisecond
	defaultMaxPacket  = 1 << 16
)

func (o Options) withDefaults() (Options, error) {
	setDefault(&o.Ports, defaultPorts)
	setDefault(&o.Bandwidth, defaultBandwidth)
	setDefault(&o.CutThrough, defaultCutThrough)
	setDefault(&o.Cable, defaultCable)
	setDefault(&o.Slack, defaultSlack)
	setDefault(&o.Timeout, defaultTimeout)
	setDefault(&o.MaxPacket, defaultMaxPacket)
	for _, c := range []struct {
		what      string
		v, lo, hi float64
	}{
		{"Ports", float64(o.Ports), 2, crossbar.MaxPorts},
		{"Bandwidth", float64(o.Bandwidth), 1, 1e12},
		{"CutThrough", float64(o.CutThrough), 0, float64(time.Second)},
		{"Cable", float64(o.Cable), 0, float64(time.Second)},
		{"Slack", float64(o.Slack), 1, 1 << 20},
		{"Timeout", float64(o.Timeout), 1, float64(time.Hour)},
		{"MaxPacket", float64(o.MaxPacket), 16, 1 << 24},
		{"BitErrors", o.BitErrors, 0, 1},
	} {
		if !(c.v >= c.lo && c.v <= c.hi) {
			return o, fmt.Errorf("myrinet: option %s is %v: want %v to %v", c.what, c.v, c.lo, c.hi)
		}
	}
	return o, nil
}

func setDefault[T comparable](p *T, value T) {
	var zero T
	if *p == zero {
		*p = value
	}
}

// wire returns how long n bytes take to pass a point of a link, in nanoseconds.
func (o *Options) wire(n int) int64 {
	if n <= 0 {
		return 0
	}
	return (int64(n)*int64(time.Second) + o.Bandwidth - 1) / o.Bandwidth
}

// wire cannot overflow: the longest packet times 1e9 is 1.7e16.
const _ = int64(1<<24) * int64(time.Second)
