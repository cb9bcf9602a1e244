package vipl_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// TestUDPAddressLost takes either side's IP address away under traffic. It goes
// on when the address is there again; if that takes longer than peers wait, the
// connection ends with an error that says which address it is.
func TestUDPAddressLost(t *testing.T) {
	for side, addr := range []string{"10.9.0.1", "10.9.0.2"} {
		t.Run(addr, func(t *testing.T) {
			p := vethtest.New(t, 1500)
			addIPs(t, p)
			nics := [2]*vipl.NIC{openOn(t, p, 0, "udp"), openOn(t, p, 1, "udp")}
			s := startStream(t, nics, patient)
			changeIP(t, p, side, addr, netlink.AddrDel)
			changeIP(t, p, side, addr, netlink.AddrAdd)
			s.flows(t)
			s = startStream(t, nics, &vipl.Attributes{PeerTimeout: time.Second})
			changeIP(t, p, side, addr, netlink.AddrDel)
			within(t, "the end", func() error {
				for _, err := range []error{<-s.sent, <-s.received} {
					if !errors.Is(err, vipl.ErrDescriptor) {
						return err
					}
				}
				return nil
			})
			err := [2]*vipl.VI{s.a, s.b}[side].Err()
			if !errors.Is(err, vipl.ErrUnreachable) || !strings.Contains(err.Error(), "lost the address "+addr) {
				t.Errorf("the connection ended with: %v", err)
			}
		})
	}
}

// changeIP changes an address of the interface of a side.
func changeIP(t *testing.T, p *vethtest.Pair, side int, ip string, change func(netlink.Link, *netlink.Addr) error) {
	t.Helper()
	err := p.In(side, func() error {
		link, err := netlink.LinkByName(vethtest.Name)
		if err != nil {
			return err
		}
		addr, err := netlink.ParseAddr(ip + "/24")
		if err != nil {
			return err
		}
		return change(link, addr)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// The same changes as in address_test.go to interfaces over which udp runs with
// IPv6, from which Linux takes the addresses when they go down.

// six are the addresses of the two sides; another is what one side gets later.
var six = [2]string{"fd00:b0b::1/64", "fd00:b0b::2/64"}

const another = "fd00:b0b::3/64"

// addIPv6s gives the ends of a veth IPv6 addresses.
func addIPv6s(t *testing.T, p *vethtest.Pair) {
	t.Helper()
	for side, addr := range six {
		change6(t, p, side, addr, netlink.AddrAdd)
	}
}

// ipv6 makes a veth with IPv6 addresses and opens NICs on both ends.
func ipv6(t *testing.T, mtu int) (p *vethtest.Pair, nics [2]*vipl.NIC) {
	t.Helper()
	p = vethtest.New(t, mtu)
	addIPv6s(t, p)
	for side, addr := range six {
		nics[side] = open6(t, p, side, addr)
	}
	return p, nics
}

// open6 opens a NIC at an IPv6 address.
func open6(t *testing.T, p *vethtest.Pair, side int, addr string) (n *vipl.NIC) {
	t.Helper()
	err := p.In(side, func() (err error) {
		n, err = vipl.Open(t.Context(), &vipl.Config{Interface: ipOf(addr), Driver: "udp"})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close() })
	return n
}

func ipOf(prefix string) string { return netip.MustParsePrefix(prefix).Addr().String() }

// change6 changes an IPv6 address of the interface of a side.
func change6(t *testing.T, p *vethtest.Pair, side int, prefix string, change func(netlink.Link, *netlink.Addr) error) {
	t.Helper()
	err := p.In(side, func() error {
		link, err := netlink.LinkByName(vethtest.Name)
		if err != nil {
			return err
		}
		addr, err := netlink.ParseAddr(prefix)
		if err != nil {
			return err
		}
		addr.Flags = unix.IFA_F_NODAD // at once, without asking whether somebody has it
		return change(link, addr)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// lost wants both sides to end, the one on side with an error that says that its
// address is gone.
func (s *stream) lost(t *testing.T, side int) {
	t.Helper()
	within(t, "the end", func() error {
		for _, err := range []error{<-s.sent, <-s.received} {
			if !errors.Is(err, vipl.ErrDescriptor) {
				return fmt.Errorf("ended with %w", err)
			}
		}
		return nil
	})
	for i, v := range []*vipl.VI{s.a, s.b} {
		says := strings.Contains(fmt.Sprint(v.Err()), vethtest.Name+" has lost the address "+ipOf(six[side]))
		if !errors.Is(v.Err(), vipl.ErrUnreachable) || says != (i == side) {
			t.Errorf("side %d ended with: %v", i, v.Err())
		}
	}
}

// impatient gives peers as long as the tests of lost addresses wait.
var impatient = &vipl.Attributes{PeerTimeout: time.Second}

// on6 runs a test for a change at either side, and beside others: it waits most
// of the time.
func on6(t *testing.T, run func(t *testing.T, side int)) {
	t.Parallel()
	for side := range six {
		t.Run(fmt.Sprint("side", side), func(t *testing.T) {
			t.Parallel()
			run(t, side)
		})
	}
}

// back takes an address away and gives it back under traffic, which goes on.
func (s *stream) back(t *testing.T, p *vethtest.Pair, side int) {
	t.Helper()
	change6(t, p, side, six[side], netlink.AddrDel)
	change6(t, p, side, six[side], netlink.AddrAdd)
	s.flows(t)
}

// TestIPv6AddressLost takes either side's address away under traffic. It goes on
// when the address is there again; if that takes longer than peers wait, the
// connection ends with an error that says which address it is. Linux has another
// one with a way to the peer, and goes on sending from the one that is gone.
func TestIPv6AddressLost(t *testing.T) {
	on6(t, func(t *testing.T, side int) {
		p, nics := ipv6(t, 1500)
		change6(t, p, side, another, netlink.AddrAdd)
		startStream(t, nics, patient).back(t, p, side)
		s := startStream(t, nics, impatient)
		change6(t, p, side, six[side], netlink.AddrDel)
		s.lost(t, side)
	})
}

// TestIPv6AddressReplaced does so with a side's only address, and gives it
// another one. A NIC opened anew is there, and the peer's NIC finds it.
func TestIPv6AddressReplaced(t *testing.T) {
	on6(t, func(t *testing.T, side int) {
		p, nics := ipv6(t, 1500)
		startStream(t, nics, patient).back(t, p, side)
		s := startStream(t, nics, impatient)
		change6(t, p, side, six[side], netlink.AddrDel)
		change6(t, p, side, another, netlink.AddrAdd)
		s.lost(t, side)
		nics[side].Close()
		nics[side] = open6(t, p, side, another)
		startStream(t, nics, patient)
	})
}

// TestIPv6DownUp switches either interface off and on again under traffic, which
// goes on when the interface has its address again. If nobody gives it back, the
// connection ends with an error that says which one it is.
func TestIPv6DownUp(t *testing.T) {
	on6(t, func(t *testing.T, side int) {
		p, nics := ipv6(t, 1500)
		s := startStream(t, nics, patient)
		downUp := func() {
			if err := errors.Join(p.SetUp(side, false), p.SetUp(side, true)); err != nil {
				t.Fatal(err)
			}
		}
		downUp()
		change6(t, p, side, six[side], netlink.AddrAdd)
		s.flows(t)
		s = startStream(t, nics, impatient)
		downUp()
		s.lost(t, side)
	})
}

// goings are the ways in which the interface of side 0 goes, and whether it is there again
// afterwards, under its name.
var goings = map[string]func(t *testing.T, p *vethtest.Pair){
	"deleted": func(t *testing.T, p *vethtest.Pair) {
		if err := p.Delete(); err != nil {
			t.Error(err)
		}
	},
	"made anew": func(t *testing.T, p *vethtest.Pair) {
		if err := errors.Join(p.Delete(), p.Join(1500)); err != nil {
			t.Error(err)
		}
	},
	"moved away":      func(t *testing.T, p *vethtest.Pair) { p.MoveAway(t, 0, false) },
	"moved, and back": func(t *testing.T, p *vethtest.Pair) { p.MoveAway(t, 0, true) },
}

// TestInterfaceGone: when the interface of a NIC is gone all that wait end with an error that
// says so, and so does everything that is begun afterwards, also if there is another interface
// of the same name.
func TestInterfaceGone(t *testing.T) {
	for name, gone := range goings {
		t.Run(name, func(t *testing.T) {
			onChange(t, 1500, func(t *testing.T, p *vethtest.Pair, nics [2]*vipl.NIC, driver string) {
				if name == "moved, and back" && strings.HasPrefix(driver, "udp") {
					return // a station of udp is its address, which an interface that is back may get again
				}
				interfaceGone(t, nics, func() { gone(t, p) })
			})
		})
	}
}

func interfaceGone(t *testing.T, nics [2]*vipl.NIC, gone func()) {
	n := nics[0]
	a, _ := join(t, nics, patient)
	calls := map[string]func() error{
		"Wait of a listener": func() error {
			l, err := n.Listen(n.Addr().Port + 5)
			if err == nil {
				_, err = l.Wait(bg)
				l.Close()
			}
			return err
		},
		"Lookup": func() error { _, err := n.Lookup(bg, "nobody"); return err },
		"Connect": func() error {
			silent, err := nics[1].Listen(0)
			if err != nil {
				return err
			}
			v, err := n.CreateVI(nil, nil, nil)
			if err != nil {
				return err
			}
			return v.Connect(bg, silent.Addr(), nil)
		},
		"Wait of a queue": func() error {
			q, err := n.CreateCQ(8)
			if err == nil {
				_, _, err = q.Wait(bg)
			}
			return err
		},
		"a connection": func() error {
			<-n.Ended()
			return n.Cause()
		},
		"Echo": func() error {
			_, err := n.Echo(bg, ethertype.Addr{MAC: ethertype.MAC{2, 9, 9, 9, 9, 9}, Port: 1024}, 8)
			return err
		},
	}
	want := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, vipl.ErrLink) || !errors.Is(err, transport.ErrGone) || errors.Is(err, transport.ErrLinkDown) {
			t.Errorf("%s: %v; want ErrLink and ErrGone", what, err)
		}
	}
	var waits sync.WaitGroup
	for what, call := range calls {
		waits.Go(func() { want(what, call()) })
	}
	gone()
	within(t, "the end of all calls", func() error { waits.Wait(); return nil })
	if a.State() != vipl.StateError {
		t.Errorf("the connection is %v", a.State())
	}
	want("the connection", a.Err())
	delete(calls, "Connect") // its first half is the peer's
	for what, call := range calls {
		want(what+" afterwards", call())
	}
}

// TestOwnLinkDown: what gets no answer while the NIC's own interface is off says so, with the
// command that switches it on, and does not blame the peer.
func TestOwnLinkDown(t *testing.T) {
	onChange(t, 1500, func(t *testing.T, p *vethtest.Pair, nics [2]*vipl.NIC, driver string) {
		n, other := nics[0], nics[1].Addr()
		a, _ := join(t, nics, &vipl.Attributes{PeerTimeout: 200 * time.Millisecond})
		if err := p.SetUp(0, false); err != nil {
			t.Fatal(err)
		}
		short := func() context.Context {
			ctx, cancel := n.WithTimeout(bg, 50*time.Millisecond)
			t.Cleanup(cancel)
			return ctx
		}
		for what, call := range map[string]func() error{
			"Lookup":     func() error { _, err := n.Lookup(short(), "nobody"); return err },
			"LookupAt":   func() error { _, err := n.LookupAt(short(), other, "nobody"); return err },
			"HostByName": func() error { _, err := n.HostByName(short(), "nobody", 0); return err },
			"HostByAddr": func() error { _, err := n.HostByAddr(short(), other); return err },
			"Discover":   func() error { _, err := n.Discover(short()); return err },
			"Echo":       func() error { _, err := n.Echo(short(), other, 8); return err },
			"Connect": func() error {
				v, err := n.CreateVI(nil, nil, nil)
				if err != nil {
					return err
				}
				return v.Connect(short(), other, nil)
			},
			"ConnectPeer": func() error {
				v, err := n.CreateVI(nil, nil, nil)
				if err != nil {
					return err
				}
				return v.ConnectPeer(short(), other, nil)
			},
			"the connection": func() error {
				for a.State() == vipl.StateConnected { // the peer's time-out ends it
					runtime.Gosched()
				}
				return a.Err()
			},
		} {
			err := call()
			if !errors.Is(err, transport.ErrLinkDown) || !strings.Contains(fmt.Sprint(err), "ip link set bob0 up") {
				t.Errorf("%s: %v; want ErrLinkDown and the remedy", what, err)
			} else if strings.Contains(err.Error(), "running") {
				t.Errorf("%s: it blames the peer: %v", what, err)
			}
		}
	})
}

// shrunkLink is a memLink whose interface can be given another MTU.
type shrunkLink struct {
	*memLink
	change error
}

func (l *shrunkLink) Check() error { return l.change }

func (l *shrunkLink) Info() transport.Info {
	i := l.memLink.Info()
	i.Virtual = false // only such links are looked at
	return i
}

// ownLink is a shrunkLink to itself, over which a NIC talks with its own host.
type ownLink struct{ shrunkLink }

func (l *ownLink) LocalMTU() int                                { return l.mtu }
func (l *ownLink) LocalSlots() int                              { return memSlots }
func (l *ownLink) OnDeparture(func(transport.PortRange, error)) {}

// TestShrunkMTU: a smaller MTU ends the connections with peers on the segment
// whose frames it does not carry, and none within the host, which do not use it.
func TestShrunkMTU(t *testing.T) {
	const peerMTU = 1400
	shrink := func(d *duo, change *error, mtu int, want vipl.State) {
		attr := &vipl.Attributes{PeerTimeout: time.Hour}
		d.a, _ = d.na.CreateVI(attr, nil, nil)
		d.b, _ = d.nb.CreateVI(attr, nil, nil)
		d.connect()
		*change = &transport.ChangeError{Interface: "mem", What: "MTU", Old: "1500", New: "less", MTU: mtu}
		*d.links[0].clock += int64(time.Second)
		d.run()
		if d.a.State() != want || d.b.State() != want {
			d.t.Errorf("MTU %d: a: %v (%v), b: %v (%v); want both %v", mtu, d.a.State(), d.a.Err(), d.b.State(), d.b.Err(), want)
		}
	}
	for mtu, want := range map[int]vipl.State{peerMTU: vipl.StateConnected, peerMTU - 1: vipl.StateError} {
		d := &duo{t: t}
		d.links[0], d.links[1] = memPair(1500)
		d.links[1].mtu = peerMTU
		wire := &shrunkLink{memLink: d.links[0]}
		d.na, d.nb = openQuiet(t, wire, 1), openQuiet(t, d.links[1], 2)
		shrink(d, &wire.change, mtu, want)
	}
	d := &duo{t: t}
	d.links[0], _ = memPair(1500)
	d.links[0].peer = d.links[0]
	own := &ownLink{shrunkLink{memLink: d.links[0]}}
	d.na = openQuiet(t, own, 1)
	d.nb = d.na
	shrink(d, &own.change, 1000, vipl.StateConnected)
}

func openQuiet(t *testing.T, link transport.Link, seed uint64) *vipl.NIC {
	t.Helper()
	n, err := vipl.Open(t.Context(), &vipl.Config{Link: link, Seed: seed, NoService: true, WireOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close() })
	return n
}
