package viplinks

import (
	"testing"

	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/fault"
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/mdlayher/ethernet"
)

// Way is a kind of path between programs.
type Way struct {
	Name   string
	Driver string
	Rate   float64 // probability of each kind of fault
}

// Real lists the paths to another program, and a path that loses, duplicates, reorders and damages
// frames. The tests of the rooms above vipl run over them.
var Real = []Way{
	{"ring", "ring", 0},
	{"packet", "packet", 0},
	{"udp", "udp", 0},
	{"myrinet", "myrinet", 0},
	{"shm", "shm", 0},
	{"faults", "ring", 0.02},
}

// Faults returns a wrapper for Wire that injects the faults of the path.
func (w Way) Faults(seed uint64) func(side int, l transport.Link) transport.Link {
	return func(side int, l transport.Link) transport.Link {
		return fault.New(l, fault.Options{Seed: seed + uint64(side), Drop: w.Rate, Dup: w.Rate, Reorder: w.Rate, Corrupt: w.Rate})
	}
}

// Wire opens two NICs on the ends of a wire: a veth, for udp the loopback, and for shm this host's
// memory. Packages that are tested at the same time pass numbers that differ by at least two. The
// number determines the addresses on the loopback interface and, within the host, the EtherType.
// Otherwise programs of another test could take the ports of a program that has died, and answer in
// its place.
func Wire(t *testing.T, number int, driver string, wrap func(side int, l transport.Link) transport.Link) (nics [2]*vipl.NIC) {
	t.Helper()
	in := func(_ int, f func() error) error { return f() }
	names := [2]string{vethtest.Loopback(number), vethtest.Loopback(number + 1)}
	var frames ethernet.EtherType
	switch driver {
	case "udp":
	case "shm":
		names = [2]string{}
		frames = 0x8900 + ethernet.EtherType(number)
	default:
		in = vethtest.New(t, 1500).In
		names = [2]string{vethtest.Name, vethtest.Name}
	}
	for side := range nics {
		if err := in(side, func() (err error) {
			nics[side], err = vipl.Open(t.Context(), &vipl.Config{Interface: names[side], Driver: driver, EtherType: frames, WireOnly: driver != "shm",
				Wrap: func(l transport.Link) transport.Link { return wrap(side, l) }})
			return err
		}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { nics[side].Close() })
	}
	return nics
}
