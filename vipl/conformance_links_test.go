package vipl_test

import (
	"testing"

	"github.com/bobnet-go/bobnet/ethertype"
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
// first two run under -short, too. To open and close packet sockets takes long:
// the links that do share the levels out, so that each rule meets each of its
// levels with each kind of wait on one of ring, bulk9000 and packet.
var conformanceLinks = []conformance.Link{
	{Name: "sim", Setup: simEnds},
	{Name: "ring", Setup: overVeth(1500, [2]int{0, 1}, openRing), Share: 1},
	{Name: "bulk9000", Setup: overVeth(9000, [2]int{0, 1}, openBulk), Share: 2},
	{Name: "packet", Setup: overVeth(9000, [2]int{0, 1}, openPacket), Share: 3},
	{Name: "udp", Setup: udpEnds},
	{Name: "shm", Setup: overVeth(1500, [2]int{0, 0}, openShm)},
	{Name: "host", Setup: overVeth(1500, [2]int{0, 0}, openHost), Share: 1},
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

// udpEnds opens links at two addresses of the loopback, where the processes of
// other tests are too: an EtherType of its own keeps their questions out.
func udpEnds(testing.TB) func() (conformance.Ends, error) {
	return func() (e conformance.Ends, err error) {
		for side, ip := range []string{"127.0.0.41", "127.0.0.42"} {
			if e.Links[side], err = udp.Open(&udp.Config{Interface: ip, EtherType: ethertype.Default + 1}); err != nil {
				return e, err
			}
		}
		return e, nil
	}
}
