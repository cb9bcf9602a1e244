package host_test

import (
	"net"
	"testing"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/link/host"
	"github.com/bobnet-go/bobnet/internal/link/linktest"
	"github.com/bobnet-go/bobnet/internal/link/shm"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/packet"
	"github.com/bobnet-go/bobnet/transport/ring"
	"github.com/bobnet-go/bobnet/transport/udp"
	"github.com/vishvananda/netlink"
)

// twin is a second interface on the first host, with the first one's MAC
// address, as a VLAN has that of the interface below it.
const twin = "bobtwin"

// addTwin adds it, and gives it an IP address.
func addTwin() error {
	first, err := netlink.LinkByName(vethtest.Name)
	if err != nil {
		return err
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.HardwareAddr = twin, first.Attrs().HardwareAddr
	if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "bobend"}); err != nil {
		return err
	}
	for _, name := range []string{twin, "bobend"} {
		l, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		if err := netlink.LinkSetUp(l); err != nil {
			return err
		}
	}
	l, err := netlink.LinkByName(twin)
	if err != nil {
		return err
	}
	return netlink.AddrAdd(l, &netlink.Addr{IPNet: &net.IPNet{IP: net.IPv4(10, 99, 0, 1), Mask: net.CIDRMask(24, 32)}})
}

// joined opens a link on an interface there and joins it; shm, which has no need
// of that, is only opened. The link is closed when the test ends.
func joined(t *testing.T, p *vethtest.Pair, driver, ifi string) (l transport.Link) {
	t.Helper()
	err := p.In(0, func() (err error) {
		switch driver {
		case "ring":
			l, err = ring.Open(t.Context(), &ring.Config{Interface: ifi, Slots: 64})
		case "packet":
			l, err = packet.Open(t.Context(), &packet.Config{Interface: ifi})
		case "udp":
			l, err = udp.Open(t.Context(), &udp.Config{Interface: ifi})
		case "udp elsewhere":
			l, err = udp.Open(t.Context(), &udp.Config{Interface: ifi, BasePort: udp.DefaultBasePort - 100})
		case "shm":
			l, err = shm.Open(&shm.Config{Interface: ifi})
			return err
		}
		if err != nil {
			return err
		}
		j, err := host.Join(l, nil)
		if err != nil {
			l.Close()
			return err
		}
		l = j
		return nil
	})
	if err != nil {
		t.Fatalf("%s on %s: %v", driver, ifi, err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// TestInterfaces: links on two interfaces with one MAC address are apart, with
// the same ports if they like; those on one interface reach each other, however
// they were opened.
func TestInterfaces(t *testing.T) {
	p := vethtest.New(t, 1500)
	if err := p.In(0, addTwin); err != nil {
		t.Fatal(err)
	}
	first := joined(t, p, "ring", vethtest.Name)
	links := []transport.Link{joined(t, p, "ring", twin), joined(t, p, "packet", twin), joined(t, p, "shm", twin)}
	if a, b := first.Info(), links[0].Info(); a.MAC != b.MAC || a.Ports != b.Ports {
		t.Fatalf("%+v and %+v are no twins", a, b)
	}
	to := links[0].Info()
	to.MAC = ethertype.Broadcast
	for i, from := range links {
		frames := []transport.Frame{{Head: linktest.NewFrame(from.Info(), to, ethertype.PortAll, []byte("all"))}}
		for _, at := range links {
			frames = append(frames, transport.Frame{Head: linktest.NewFrame(from.Info(), at.Info(), at.Info().Ports.Hi, []byte("one"))})
		}
		if n, err := from.Send(frames); n != len(frames) || err != nil {
			t.Fatalf("Send = %d, %v", n, err)
		}
		for j, at := range links {
			if i == j {
				receive(t, at, 1) // who sends to all does not hear itself
			} else {
				receive(t, at, 2)
			}
		}
	}
	if n, err := first.Recv(make([][]byte, 1)); n != 0 {
		t.Errorf("a frame has crossed to the other interface (%v)", err)
	}
	a, b := joined(t, p, "udp", twin), joined(t, p, "udp", twin)
	if _, err := a.Send([]transport.Frame{{Head: linktest.NewFrame(a.Info(), b.Info(), b.Info().Ports.Lo, nil)}}); err != nil {
		t.Error(err)
	}
	receive(t, b, 1)
	if c := joined(t, p, "udp elsewhere", twin); c.Info().MAC != a.Info().MAC || c.Info().Ports != a.Info().Ports {
		t.Errorf("%+v and %+v are no twins", a.Info(), c.Info())
	}
}
