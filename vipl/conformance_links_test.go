package vipl_test

import (
	"testing"

	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/host"
	"github.com/bobnet-go/bobnet/transport/packet"
	"github.com/bobnet-go/bobnet/transport/ring"
	"github.com/bobnet-go/bobnet/transport/shm"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/transport/udp"
	"github.com/bobnet-go/bobnet/vipl/conformance"
)

// conformanceLinks are the ways to join two NICs that the suite runs over. The
// first two run under -short, too.
var conformanceLinks = []conformance.Link{
	{Name: "sim", Setup: simEnds},
	{Name: "ring", Setup: overVeth(1500, [2]int{0, 1}, openRing), Heavy: true},
	{Name: "bulk9000", Setup: overVeth(9000, [2]int{0, 1}, openBulk), Heavy: true},
	{Name: "packet", Setup: overVeth(9000, [2]int{0, 1}, openPacket), Heavy: true},
	{Name: "udp", Setup: udpEnds, Heavy: true},
	{Name: "shm", Setup: overVeth(1500, [2]int{0, 0}, openShm), Heavy: true},
	{Name: "host", Setup: overVeth(1500, [2]int{0, 0}, openHost), Heavy: true},
}

func openRing() (transport.Link, error) { return ring.Open(&ring.Config{Interface: vethtest.Name}) }

// openBulk opens a ring that receives bulk frames apart at any MTU.
func openBulk() (transport.Link, error) {
	return ring.Open(&ring.Config{Interface: vethtest.Name, Bulk: ring.On})
}

func openPacket() (transport.Link, error) {
	return packet.Open(&packet.Config{Interface: vethtest.Name})
}

func openShm() (transport.Link, error) { return shm.Open(nil) }

// openHost opens an interface twice: the way between the two is shared memory.
func openHost() (transport.Link, error) {
	outer, err := openRing()
	if err != nil {
		return nil, err
	}
	return host.Join(outer, nil)
}

// simEnds joins two stations of a simulated segment.
func simEnds(testing.TB) func() (conformance.Ends, error) {
	return func() (e conformance.Ends, err error) {
		e.World = sim.New(sim.Options{Seed: 1})
		for side, name := range []string{"a", "b"} {
			e.Links[side] = e.World.StationWith(sim.StationOptions{Name: name, Ports: transport.PortRange{Lo: 1024, Hi: 2047}})
		}
		return e, nil
	}
}

// overVeth opens a link at each of two ends of a veth, or two at one end.
func overVeth(mtu int, sides [2]int, open func() (transport.Link, error)) func(testing.TB) func() (conformance.Ends, error) {
	return func(t testing.TB) func() (conformance.Ends, error) {
		p := vethtest.New(t, mtu)
		return func() (e conformance.Ends, err error) {
			for i, side := range sides {
				if err := p.In(side, func() (err error) { e.Links[i], err = open(); return err }); err != nil {
					return e, err
				}
			}
			return e, nil
		}
	}
}

// udpEnds opens links at two addresses of the loopback.
func udpEnds(testing.TB) func() (conformance.Ends, error) {
	return func() (e conformance.Ends, err error) {
		for side, ip := range []string{"127.0.0.41", "127.0.0.42"} {
			if e.Links[side], err = udp.Open(&udp.Config{Interface: ip}); err != nil {
				return e, err
			}
		}
		return e, nil
	}
}
