package udp_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/link/iface"
	"github.com/bobnet-go/bobnet/internal/link/linktest"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/fault"
	"github.com/bobnet-go/bobnet/transport/udp"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// inside is netlink within a namespace.
func inside(t *testing.T, p *vethtest.Pair, side int, f func(*netlink.Handle, netlink.Link) error) {
	t.Helper()
	err := p.In(side, func() error {
		h, err := netlink.NewHandle()
		if err != nil {
			return err
		}
		defer h.Close()
		link, err := h.LinkByName(vethtest.Name)
		if err != nil {
			return err
		}
		return f(h, link)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// give gives a side's interface addresses, such as "10.0.0.1/24".
func give(t *testing.T, p *vethtest.Pair, side int, addrs ...string) {
	t.Helper()
	inside(t, p, side, func(h *netlink.Handle, link netlink.Link) error { return addAddrs(h, link, addrs) })
}

func addAddrs(h *netlink.Handle, link netlink.Link, addrs []string) error {
	for _, text := range addrs {
		addr, err := netlink.ParseAddr(text)
		if err != nil {
			return err
		}
		addr.Flags = unix.IFA_F_NODAD // at once, without asking whether somebody has it
		if err := h.AddrAdd(link, addr); err != nil {
			return fmt.Errorf("add %s: %w", text, err)
		}
	}
	return nil
}

// openIn opens a link on one side of p and closes it when the test ends.
func openIn(t *testing.T, p *vethtest.Pair, side int, cfg udp.Config) *udp.Link {
	t.Helper()
	var l *udp.Link
	err := p.In(side, func() (err error) {
		l, err = udp.Open(t.Context(), &cfg)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// Addresses of the two sides of a veth, of either family.
var (
	four = [2]string{"10.9.0.1/24", "10.9.0.2/24"}
	six  = [2]string{"fd00:b0b::1/64", "fd00:b0b::2/64"}
)

func TestVeth(t *testing.T) {
	for name, test := range map[string]struct {
		mtu   int
		addrs [2]string
	}{
		"IPv4/1500":  {1500, four},
		"IPv4/65535": {65535, four},
		"IPv4/110":   {110, four},
		"IPv6/1500":  {1500, six},
		"IPv6/65535": {65535, six},
		"LinkLocal":  {1500, [2]string{"fe80::b0b:1/64", "fe80::b0b:2/64"}},
	} {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && test.mtu != 1500 {
				t.Skip("-short: MTU 1500 only")
			}
			p := vethtest.New(t, test.mtu)
			for side := range 2 {
				give(t, p, side, test.addrs[side])
			}
			linktest.Run(t, func(t *testing.T) linktest.Pair {
				station := func(side int) transport.Link {
					ip := netip.MustParsePrefix(test.addrs[side]).Addr().String()
					return suited{openIn(t, p, side, udp.Config{Interface: ip})}
				}
				return linktest.Pair{A: station(0), B: station(1), C: station(1)}
			})
		})
	}
}

// TestFaults puts the fault wrapper, which changes nothing here, around the
// link.
func TestFaults(t *testing.T) {
	p := vethtest.New(t, 1500)
	give(t, p, 0, four[0])
	give(t, p, 1, four[1])
	linktest.Run(t, func(t *testing.T) linktest.Pair {
		station := func(side int) transport.Link {
			return fault.New(suited{openIn(t, p, side, udp.Config{})}, fault.Options{Seed: 1})
		}
		return linktest.Pair{A: station(0), B: station(1), Allocates: true}
	})
}

// TestChoice names an interface that has both families in every way.
func TestChoice(t *testing.T) {
	p := vethtest.New(t, 1500)
	inside(t, p, 0, func(h *netlink.Handle, _ netlink.Link) error { // the loopback is up, as it is everywhere
		lo, err := h.LinkByName("lo")
		if err != nil {
			return err
		}
		return h.LinkSetUp(lo)
	})
	fails := func(cfg udp.Config, want error) {
		t.Helper()
		err := p.In(0, func() error {
			_, err := udp.Open(t.Context(), &cfg)
			return err
		})
		if !errors.Is(err, want) {
			t.Errorf("%+v: %v, want %v", cfg, err, want)
		}
	}
	fails(udp.Config{Network: "udp4"}, transport.ErrInterface)
	fails(udp.Config{Interface: vethtest.Name, Network: "udp4"}, transport.ErrInterface)
	give(t, p, 0, six[0])
	fails(udp.Config{Interface: vethtest.Name, Network: "udp4"}, transport.ErrInterface)
	ip6 := netip.MustParsePrefix(six[0]).Addr()
	if l := openIn(t, p, 0, udp.Config{}); l.Addr() != ip6 {
		t.Errorf("without IPv4 the link is at %v, want %v", l.Addr(), ip6)
	}
	give(t, p, 0, four[0])
	ip4 := netip.MustParsePrefix(four[0]).Addr()
	for _, test := range []struct {
		name, network string
		want          netip.Addr
	}{
		{"", "", ip4}, {"", "udp4", ip4}, {"", "udp6", ip6},
		{vethtest.Name, "", ip4}, {vethtest.Name, "udp6", ip6},
		{vethtest.MACs[0].String(), "", ip4}, {vethtest.MACs[0].String(), "udp6", ip6},
		{ip4.String(), "", ip4}, {ip6.String(), "", ip6}, {ip6.String() + "%" + vethtest.Name, "", ip6},
		{udp.MAC(ip4).String(), "", ip4},
	} {
		if l := openIn(t, p, 0, udp.Config{Interface: test.name, Network: test.network}); l.Addr() != test.want {
			t.Errorf("interface %q, network %q: the link is at %v, want %v", test.name, test.network, l.Addr(), test.want)
		}
	}
	fails(udp.Config{Interface: ip4.String(), Network: "udp6"}, transport.ErrInterface)
	if err := p.SetUp(0, false); err != nil {
		t.Fatal(err)
	}
	fails(udp.Config{Interface: vethtest.Name}, transport.ErrInterface)
}

// TestDown switches the interface off, and lowers its MTU, under an open link.
func TestDown(t *testing.T) {
	p := vethtest.New(t, 1500)
	give(t, p, 0, four[0])
	give(t, p, 1, four[1])
	a, b := openIn(t, p, 0, udp.Config{}), openIn(t, p, 1, udp.Config{})
	f := frameTo(a, b, make([]byte, 1400))
	send(t, a, f)
	receive(t, b, 1)
	if err := p.SetUp(0, false); err != nil {
		t.Fatal(err)
	}
	if n, err := a.Send([]transport.Frame{f}); n != 0 || !errors.Is(err, transport.ErrLinkDown) {
		t.Errorf("Send = %d, %v; want 0, ErrLinkDown", n, err)
	}
	if err := a.Check(); !errors.Is(err, transport.ErrLinkDown) {
		t.Errorf("Check = %v, want ErrLinkDown", err)
	}
	if err := p.SetUp(0, true); err != nil {
		t.Fatal(err)
	}
	send(t, a, f)
	receive(t, b, 1)
	// The kernel notices the carrier in the background.
	for end := a.Now() + int64(10*time.Second); a.Check() != nil && a.Now() < end; {
		runtime.Gosched()
	}
	if err := a.Check(); err != nil {
		t.Errorf("Check = %v", err)
	}
	if err := p.SetMTU(0, 1000); err != nil {
		t.Fatal(err)
	}
	if n, err := a.Send([]transport.Frame{frameTo(a, b, nil), f, f, f}); n != 1 || !errors.Is(err, transport.ErrFrameSize) {
		t.Errorf("Send = %d, %v; want 1, ErrFrameSize", n, err)
	}
	var change *transport.ChangeError
	if err := a.Check(); !errors.As(err, &change) || change.MTU != 1000-42 {
		t.Errorf("Check = %v, %+v; want a change of the MTU", err, change)
	}
	if err := p.Delete(); err != nil {
		t.Fatal(err)
	}
	if n, err := a.Send([]transport.Frame{f}); n != 0 || !errors.Is(err, transport.ErrGone) {
		t.Errorf("Send = %d, %v after the interface was removed; want 0, ErrGone", n, err)
	}
}

// take takes an address away from a side's interface.
func take(t *testing.T, p *vethtest.Pair, side int, text string) {
	t.Helper()
	inside(t, p, side, func(h *netlink.Handle, link netlink.Link) error {
		addr, err := netlink.ParseAddr(text)
		if err != nil {
			return err
		}
		return h.AddrDel(link, addr)
	})
}

// arrives sends f until it arrives: the kernel makes an address work in the
// background.
func arrives(t *testing.T, from, to transport.Link, f transport.Frame) {
	t.Helper()
	views := make([][]byte, transport.MaxBatch)
	for end := to.Now() + int64(10*time.Second); to.Now() < end; {
		send(t, from, f)
		if err := to.Wait(to.Now() + int64(time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		n, err := to.Recv(views)
		if err != nil {
			t.Fatal(err)
		}
		for _, got := range views[:n] {
			if bytes.Equal(got, f.Head) {
				return
			}
		}
	}
	t.Fatalf("nothing arrives; counted %+v, %+v", from.Stats(), to.Stats())
}

// TestAddressGone takes the station's address away under an open link, and gives
// it back: nothing is lost in silence, and everything works as before.
func TestAddressGone(t *testing.T) {
	for name, test := range map[string]struct {
		addrs  [2]string
		others []string // which stay, and with them the way to the other side
	}{
		"IPv4": {four, nil}, "IPv4/Others": {four, []string{"10.9.0.3/16"}}, "IPv6": {six, nil}, "IPv6/Others": {six, []string{"fd00:b0b::3/32"}},
	} {
		t.Run(name, func(t *testing.T) {
			p, addrs := vethtest.New(t, 1500), test.addrs
			give(t, p, 0, append(test.others, addrs[0])...)
			give(t, p, 1, addrs[1])
			a := openIn(t, p, 0, udp.Config{Interface: netip.MustParsePrefix(addrs[0]).Addr().String()})
			b := openIn(t, p, 1, udp.Config{})
			works := func(when string) {
				t.Helper()
				if err := a.Check(); err != nil {
					t.Errorf("%s: Check = %v", when, err)
				}
				arrives(t, a, b, frameTo(a, b, []byte(when)))
				arrives(t, b, a, frameTo(b, a, []byte(when)))
				all := linktest.NewFrame(b.Info(), transport.Info{MAC: ethertype.Broadcast}, ethertype.PortAll, []byte(when))
				arrives(t, b, a, transport.Frame{Head: all})
			}
			// Linux sends on from an IPv6 address that has gone, if there is a way.
			stale := a.Addr().Is6() && test.others != nil
			gone := func() {
				t.Helper()
				f := frameTo(a, b, []byte("lost"))
				before := a.Stats()
				if n, err := a.Send([]transport.Frame{f, f, f, f}); !stale && (n != 0 || !errors.Is(err, transport.ErrLinkDown)) {
					t.Errorf("Send = %d, %v; want 0, ErrLinkDown", n, err)
				}
				if after := a.Stats(); !stale && after.TxFrames != before.TxFrames || after.TxDrops != before.TxDrops {
					t.Errorf("counted %+v, before %+v", after, before)
				}
				err := a.Check()
				for _, w := range []string{a.Addr().String(), vethtest.Name, "ip address add"} {
					if !errors.Is(err, transport.ErrLinkDown) || !strings.Contains(err.Error(), w) {
						t.Errorf("Check = %v; want ErrLinkDown and %q", err, w)
					}
				}
			}
			works("before")
			take(t, p, 0, addrs[0])
			gone()
			give(t, p, 0, addrs[0])
			works("with the address back")
			if test.others != nil {
				return
			}
			// Linux takes IPv6 addresses away from an interface that goes down.
			if err := errors.Join(p.SetUp(0, false), p.SetUp(0, true)); err != nil {
				t.Fatal(err)
			}
			noCarrier := func() bool { err := a.Check(); return err != nil && strings.Contains(err.Error(), "carrier") }
			for end := a.Now() + int64(10*time.Second); noCarrier() && a.Now() < end; { // the kernel notices it in the background
				runtime.Gosched()
			}
			if a.Addr().Is6() {
				gone()
				give(t, p, 0, addrs[0])
			}
			works("up again")
		})
	}
}

// TestJustUp: an interface that has just been switched on is chosen at once.
func TestJustUp(t *testing.T) {
	p := vethtest.New(t, 1500)
	for range 5 {
		if err := errors.Join(p.SetUp(0, false), p.SetUp(0, true)); err != nil {
			t.Fatal(err)
		}
		give(t, p, 0, four[0])
		err := p.In(0, func() error {
			at, _, err := iface.FindUDP("")
			if err == nil && at.State != iface.Up {
				err = fmt.Errorf("it is %s", at.State)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		take(t, p, 0, four[0])
	}
}

// TestAddressGoneWithCarrier: of an interface that has neither carrier nor address
// it says the latter, which does not come back by itself.
func TestAddressGoneWithCarrier(t *testing.T) {
	p := vethtest.New(t, 1500)
	give(t, p, 0, four[0])
	a := openIn(t, p, 0, udp.Config{})
	if err := p.SetUp(1, false); err != nil {
		t.Fatal(err)
	}
	says := func(what string) bool { err := a.Check(); return err != nil && strings.Contains(err.Error(), what) }
	for end := a.Now() + int64(10*time.Second); !says("no carrier") && a.Now() < end; {
		runtime.Gosched()
	}
	take(t, p, 0, four[0])
	if !says("has lost the address") {
		t.Errorf("Check = %v", a.Check())
	}
}

// routed makes two subnets with a router between them:
//
//	p, side 0 ---- p, side 1 = router = "far" ---- q, side 1
//	subnet 1, .1              .254                  subnet 2, .1
func routed(t *testing.T, family, farMTU int) (p, q *vethtest.Pair, ips [2]netip.Addr) {
	t.Helper()
	p, q = vethtest.New(t, 1500), vethtest.New(t, farMTU)
	host, router := "10.9.%d.1/24", "10.9.%d.254/24"
	forwarding := "/proc/sys/net/ipv4/ip_forward"
	if family == 6 {
		host, router = "fd00:%d::1/64", "fd00:%d::254/64"
		forwarding = "/proc/sys/net/ipv6/conf/all/forwarding"
	}
	var ns *os.File // of the router
	inside(t, p, 1, func(_ *netlink.Handle, _ netlink.Link) (err error) {
		ns, err = os.Open("/proc/thread-self/ns/net")
		return err
	})
	defer ns.Close()
	const far = "far"
	inside(t, q, 0, func(h *netlink.Handle, link netlink.Link) error {
		return errors.Join(h.LinkSetDown(link), h.LinkSetName(link, far), h.LinkSetNsFd(link, int(ns.Fd())))
	})
	inside(t, p, 1, func(h *netlink.Handle, link netlink.Link) error {
		other, err := h.LinkByName(far)
		if err != nil {
			return err
		}
		return errors.Join(h.LinkSetUp(other), vethtest.Carrier(h, far), os.WriteFile(forwarding, []byte("1"), 0),
			addAddrs(h, link, []string{fmt.Sprintf(router, 1)}), addAddrs(h, other, []string{fmt.Sprintf(router, 2)}))
	})
	for i, pair := range []*vethtest.Pair{p, q} {
		inside(t, pair, i, func(h *netlink.Handle, link netlink.Link) error {
			prefix := netip.MustParsePrefix(fmt.Sprintf(host, i+1))
			ips[i] = prefix.Addr()
			gateway := netip.MustParsePrefix(fmt.Sprintf(router, i+1)).Addr()
			if err := errors.Join(vethtest.Carrier(h, vethtest.Name), addAddrs(h, link, []string{prefix.String()})); err != nil {
				return err
			}
			return h.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Gw: gateway.AsSlice()})
		})
	}
	return p, q, ips
}

func TestRouted(t *testing.T) {
	for _, family := range []int{4, 6} {
		t.Run(fmt.Sprint("IPv", family), func(t *testing.T) {
			p, q, ips := routed(t, family, 1500)
			linktest.Run(t, func(t *testing.T) linktest.Pair {
				a := udp.Config{Interface: ips[0].String(), Peers: ips[1:]}
				b := udp.Config{Interface: ips[1].String(), Peers: ips[:1]}
				return linktest.Pair{A: suited{openIn(t, p, 0, a)}, B: suited{openIn(t, q, 1, b)}, C: suited{openIn(t, q, 1, b)}}
			})
		})
	}
}

// TestPathMTU has a smaller MTU behind the router, which says so.
func TestPathMTU(t *testing.T) {
	for _, family := range []int{4, 6} {
		t.Run(fmt.Sprint("IPv", family), func(t *testing.T) {
			p, q, ips := routed(t, family, 1300)
			b := openIn(t, q, 1, udp.Config{Interface: ips[1].String(), Peers: ips[:1]})
			a := openIn(t, p, 0, udp.Config{Interface: ips[0].String(), Peers: ips[1:]})
			long, short := frameTo(a, b, make([]byte, 1350)), frameTo(a, b, nil)
			var err error
			views := make([][]byte, transport.MaxBatch)
			for end := b.Now() + int64(30*time.Second); err == nil && b.Now() < end; {
				_, err = a.Send([]transport.Frame{long})
				send(t, a, short)                              // and wait for it, so that the router has seen both
				waited := b.Wait(b.Now() + int64(time.Second)) // it may be lost while the kernel looks for a neighbour
				if _, failed := b.Recv(views); errors.Join(waited, failed) != nil {
					t.Fatal(waited, failed)
				}
			}
			if !errors.Is(err, transport.ErrFrameSize) {
				t.Fatalf("Send = %v, want ErrFrameSize", err)
			}
			small := openIn(t, p, 0, udp.Config{Interface: ips[0].String(), Peers: ips[1:], MTU: b.Info().MTU})
			f := frameTo(small, b, make([]byte, small.Info().MTU-48))
			for range 3 {
				arrives(t, small, b, f)
			}
		})
	}
}

// TestLearned: an IPv6 station that nobody knows is reached by all hearing it,
// until it has answered once.
func TestLearned(t *testing.T) {
	p := vethtest.New(t, 1500)
	give(t, p, 0, six[0])
	give(t, p, 1, six[1], "fd00:b0b::3/64")
	cfg := udp.Config{Network: "udp6"}
	a, b := openIn(t, p, 0, cfg), openIn(t, p, 1, udp.Config{Interface: "fd00:b0b::2"})
	c := openIn(t, p, 1, udp.Config{Interface: "fd00:b0b::3"})
	f := frameTo(a, b, []byte("who are you?"))
	send(t, a, f)
	receive(t, b, 1)
	none(t, c)
	if st := c.Stats(); st.RxFiltered != 1 {
		t.Errorf("a bystander has not heard it: %+v", st)
	}
	send(t, b, frameTo(b, a, []byte("b")))
	receive(t, a, 1)
	send(t, a, f)
	receive(t, b, 1)
	none(t, c)
	if st := c.Stats(); st.RxFiltered != 1 {
		t.Errorf("a bystander hears what goes to a station that is known: %+v", st)
	}
}

// TestHardware: another MAC of the interface changes nothing for the link, which
// tells the new one.
func TestHardware(t *testing.T) {
	p := vethtest.New(t, 1500)
	give(t, p, 0, four[0])
	a := openIn(t, p, 0, udp.Config{})
	for _, mac := range []ethertype.MAC{vethtest.MACs[0], {2, 0, 0, 0, 0, 0x77}, vethtest.MACs[0]} {
		if err := p.SetMAC(0, mac); err != nil {
			t.Fatal(err)
		}
		if err := a.Check(); err != nil {
			t.Errorf("Check = %v", err)
		}
		if i := a.Info(); i.Hardware != mac || i.MAC != udp.MAC(a.Addr()) {
			t.Errorf("the interface's MAC is %v, want %v; the station's %v, want %v", i.Hardware, mac, i.MAC, udp.MAC(a.Addr()))
		}
	}
}
