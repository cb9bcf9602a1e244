// Package viplinks provides the links between two NICs over which tests of VI providers run.
package viplinks

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/netip"
	"sync"
	"testing"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/conformance"
	"github.com/bobnet-go/bobnet/internal/link/host"
	"github.com/bobnet-go/bobnet/internal/link/shm"
	"github.com/bobnet-go/bobnet/internal/myrinet/plain"
	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/myrinet"
	"github.com/bobnet-go/bobnet/transport/packet"
	"github.com/bobnet-go/bobnet/transport/ring"
	"github.com/bobnet-go/bobnet/transport/seal"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/transport/udp"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// All lists the links between two NICs: a simulated one, then the real ones. The short form of
// tests uses the first two. ring always sends through packet sockets and carries long frames; xdp
// always sends through AF_XDP and does not. host uses whichever of the two is faster in a
// measurement.
var All = []conformance.Link{
	{Name: "sim", Setup: simEnds},
	{Name: "ring", Setup: overRing(ring.Off)},
	{Name: XDP, Setup: overRing(ring.On)},
	{Name: "packet", Setup: overVeth(9000, [2]int{0, 1}, openPacket)},
	{Name: "udp", Setup: udpEnds},
	{Name: UDP6, Setup: udp6Ends},
	{Name: "myrinet", Setup: overCables},
	{Name: "shm", Setup: overVeth(1500, [2]int{0, 0}, openShm)},
	{Name: "lent", Setup: overVeth(1500, [2]int{0, 0}, openLent)},
	{Name: "host", Setup: overVeth(1500, [2]int{0, 0}, openHost)},
}

// Self gives both VIs of a rule the same NIC, so that their frames stay within the process. Tests
// of two NICs omit it.
var Self = conformance.Link{Name: "self", Setup: selfEnds}

// Card joins two cards of a simulated Myrinet. Tests of real links omit it.
var Card = conformance.Link{Name: "myrinet-sim", Setup: cardEnds}

// Sealed is a simulated segment on which frames are sealed under a key.
var Sealed = conformance.Link{Name: "sealed", Setup: sealedEnds}

// Names of links that are not names of drivers.
const (
	XDP  = "xdp"  // sends through AF_XDP
	UDP6 = "udp6" // has IPv6 addresses
)

func openPacket() (transport.Link, error) {
	return packet.Open(context.Background(), &packet.Config{Interface: vethtest.Name})
}

func openCard() (transport.Link, error) { return plain.Open(context.Background(), nil) }

func openShm() (transport.Link, error) { return shm.Open(nil) }

// openLent opens links of shared memory that lend every long frame.
func openLent() (transport.Link, error) { return shm.Open(&shm.Config{Lend: true}) }

// openHost opens an interface twice. Frames between the two links go through shared memory.
func openHost() (transport.Link, error) {
	outer, err := ring.Open(context.Background(), &ring.Config{Interface: vethtest.Name})
	if err != nil {
		return nil, err
	}
	return host.Join(outer, nil)
}

// selfEnds opens an interface once, for both ends, and checks that no frame has arrived from
// elsewhere.
func selfEnds(t testing.TB) func() (conformance.Ends, error) {
	p := vethtest.New(t, 1500)
	var outer, joined []transport.Link
	t.Cleanup(func() {
		for i := range joined {
			if wire, all := outer[i].Stats().RxFrames, joined[i].Stats().RxFrames; wire > 0 || i == 0 && all == 0 {
				t.Errorf("%d of %d frames have come over the wire, want some and none over the wire", wire, all)
			}
		}
	})
	return func() (e conformance.Ends, err error) {
		err = p.In(0, func() error {
			wire, err := ring.Open(t.Context(), &ring.Config{Interface: vethtest.Name})
			if err != nil {
				return err
			}
			l, err := host.Join(wire, nil)
			if err != nil {
				return err
			}
			outer, joined, e.Links = append(outer, wire), append(joined, l), [2]transport.Link{l, l}
			return nil
		})
		return e, err
	}
}

// overCables opens a card at each end of a veth. A card uses an interface exclusively, so links
// that are open at the same time use different veth pairs. The first pair is created at once, so
// that the whole test is skipped if it cannot be created, and not one of its subtests.
func overCables(t testing.TB) func() (conformance.Ends, error) {
	lay := func() func() (conformance.Ends, error) {
		return onPair(vethtest.New(t, 9000), [2]int{0, 1}, func(int) (transport.Link, error) { return openCard() })
	}
	cables := []func() (conformance.Ends, error){lay()}
	return func() (conformance.Ends, error) {
		for _, open := range cables {
			if e, err := open(); !errors.Is(err, unix.EADDRINUSE) {
				return e, err
			}
		}
		open := lay()
		cables = append(cables, open)
		return open()
	}
}

// simEnds joins two stations of a simulated segment.
func simEnds(t testing.TB) func() (conformance.Ends, error) {
	need.Simulated(t)
	return func() (e conformance.Ends, err error) {
		e.World = sim.New(sim.Options{Seed: 1})
		for side, name := range []string{"a", "b"} {
			e.Links[side] = e.World.StationWith(sim.StationOptions{Name: name, Ports: transport.PortRange{Lo: 1024, Hi: 2047}})
		}
		return e, nil
	}
}

// sealedEnds is simEnds with sealed links.
func sealedEnds(t testing.TB) func() (conformance.Ends, error) {
	open := simEnds(t)
	return func() (conformance.Ends, error) {
		e, err := open()
		for i, l := range e.Links {
			if err == nil {
				e.Links[i], err = seal.New(l, seal.Options{Keys: seal.Fixed(seal.Key{1}), Random: rand.NewChaCha8([32]byte{byte(i)})})
			}
		}
		return e, err
	}
}

// cardEnds joins two cards of a simulated Myrinet by a switch.
func cardEnds(t testing.TB) func() (conformance.Ends, error) {
	need.Simulated(t)
	return func() (e conformance.Ends, err error) {
		e.World = sim.New(sim.Options{Seed: 1})
		fabric, err := myrinet.New(e.World, myrinet.Options{Seed: 1})
		if err != nil {
			return e, err
		}
		crossbar := fabric.Switch("switch")
		virtual := myrinet.Virtual{World: e.World, Waiter: func() myrinet.Waiter { return e.World.Waiter() }}
		for side, name := range []string{"a", "b"} {
			other := ethertype.MAC{2, 0, 0, 0, 0, byte(1 - side)}
			var port *myrinet.Port
			e.Links[side], err = plain.NewVirtual(virtual, func(h myrinet.Host) *myrinet.Port {
				port = fabric.Host(name, h)
				return port
			}, plain.Config{
				MAC:    ethertype.MAC{2, 0, 0, 0, 0, byte(side)},
				Routes: []myrinet.HostRoute{{To: other, Turns: myrinet.Route{int8(1 - 2*side)}}},
				Card:   myrinet.CardConfig{Name: name, Timing: myrinet.PCITiming()},
			})
			if err != nil {
				return e, err
			}
			if _, err := fabric.Join(port, crossbar.Port(side)); err != nil {
				return e, err
			}
		}
		return e, nil
	}
}

// overVeth opens a link at each of two ends of a veth, or two at one end.
func overVeth(mtu int, sides [2]int, open func() (transport.Link, error)) func(testing.TB) func() (conformance.Ends, error) {
	return func(t testing.TB) func() (conformance.Ends, error) {
		return onPair(vethtest.New(t, mtu), sides, func(int) (transport.Link, error) { return open() })
	}
}

// onPair opens a link, given its index, on each of two sides of a veth.
func onPair(p *vethtest.Pair, sides [2]int, open func(i int) (transport.Link, error)) func() (conformance.Ends, error) {
	return func() (e conformance.Ends, err error) {
		for i, side := range sides {
			if err := p.In(side, func() (err error) { e.Links[i], err = open(i); return err }); err != nil {
				for _, l := range e.Links[:i] {
					l.Close()
				}
				return e, err
			}
		}
		return e, nil
	}
}

// otherThan returns On for Off and Off for On.
func otherThan(c ring.Choice) ring.Choice {
	if c == ring.On {
		return ring.Off
	}
	return ring.On
}

// overRing joins the ends of a veth by rings that send either always or never through AF_XDP, and
// checks that they have done so. Each AF_XDP socket has its own queue.
func overRing(xdp ring.Choice) func(testing.TB) func() (conformance.Ends, error) {
	return func(t testing.TB) func() (conformance.Ends, error) {
		var mu sync.Mutex
		var opened []transport.Link
		p := vethtest.NewWithQueues(t, 1500, 4)
		t.Cleanup(func() {
			for _, l := range opened {
				s := l.Stats()
				if on := xdp == ring.On; s.TxFrames > 0 && s.TxXDP > 0 != on {
					t.Errorf("%d of %d frames went through AF_XDP; it was on: %t", s.TxXDP, s.TxFrames, on)
				}
			}
		})
		return onPair(p, [2]int{0, 1}, func(int) (transport.Link, error) {
			l, err := ring.Open(t.Context(), &ring.Config{Interface: vethtest.Name, XDP: xdp, Long: otherThan(xdp)})
			if err != nil {
				return nil, err
			}
			mu.Lock()
			defer mu.Unlock()
			opened = append(opened, l)
			return l, nil
		})
	}
}

// udpEnds opens links at two addresses of the loopback interface. Processes of other tests use this
// interface, too, so a separate EtherType excludes their queries.
func udpEnds(testing.TB) func() (conformance.Ends, error) {
	return func() (e conformance.Ends, err error) {
		for side, ip := range []string{vethtest.Loopback(41), vethtest.Loopback(42)} {
			if e.Links[side], err = udp.Open(context.Background(), &udp.Config{Interface: ip, EtherType: ethertype.Default + 1}); err != nil {
				return e, err
			}
		}
		return e, nil
	}
}

// udp6Ends opens links at IPv6 addresses of the two ends of a veth.
func udp6Ends(t testing.TB) func() (conformance.Ends, error) {
	p := vethtest.New(t, 1500)
	ips := [2]netip.Prefix{netip.MustParsePrefix("fd00:b0b::1/64"), netip.MustParsePrefix("fd00:b0b::2/64")}
	for side, ip := range ips {
		err := p.In(side, func() error {
			link, err := netlink.LinkByName(vethtest.Name)
			if err != nil {
				return err
			}
			addr, err := netlink.ParseAddr(ip.String())
			if err != nil {
				return err
			}
			addr.Flags = unix.IFA_F_NODAD // usable at once, without duplicate address detection
			return netlink.AddrAdd(link, addr)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return onPair(p, [2]int{0, 1}, func(i int) (transport.Link, error) {
		return udp.Open(t.Context(), &udp.Config{Interface: ips[i].Addr().String()})
	})
}
