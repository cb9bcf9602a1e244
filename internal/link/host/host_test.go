package host_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/link/host"
	"github.com/bobnet-go/bobnet/internal/link/linktest"
	"github.com/bobnet-go/bobnet/internal/link/shm"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/packet"
	"github.com/bobnet-go/bobnet/transport/ring"
	"github.com/bobnet-go/bobnet/transport/trace"
	"github.com/bobnet-go/bobnet/transport/udp"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// outers are the links that are joined in these tests.
var outers = map[string]func() (transport.Link, error){
	"Ring": func() (transport.Link, error) {
		return ring.Open(context.Background(), &ring.Config{Interface: vethtest.Name, Slots: 64})
	},
	"Packet": func() (transport.Link, error) {
		return packet.Open(context.Background(), &packet.Config{Interface: vethtest.Name})
	},
}

// open opens a joined link on one side of p and closes it when the test ends.
func open(t testing.TB, p *vethtest.Pair, side int, outer string) *host.Link {
	t.Helper()
	var l *host.Link
	err := p.In(side, func() error {
		link, err := outers[outer]()
		if err != nil {
			return err
		}
		if l, err = host.Join(link, nil); err != nil {
			link.Close()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// TestLink runs the suite between two hosts, and between stations of one.
func TestLink(t *testing.T) {
	for outer := range outers {
		p := vethtest.New(t, 1500)
		t.Run(outer+"/Apart", func(t *testing.T) {
			linktest.Run(t, func(t *testing.T) linktest.Pair {
				return linktest.Pair{A: open(t, p, 0, outer), B: open(t, p, 1, outer), C: open(t, p, 1, outer)}
			})
		})
		t.Run(outer+"/Together", func(t *testing.T) {
			linktest.Run(t, func(t *testing.T) linktest.Pair {
				return linktest.Pair{A: open(t, p, 0, outer), B: open(t, p, 0, outer), C: open(t, p, 0, outer), SameHost: true}
			})
		})
	}
}

// receive returns the next n frames at l.
func receive(t testing.TB, l transport.Link, n int) (got []string) {
	t.Helper()
	views := make([][]byte, transport.MaxBatch)
	for end := l.Now() + int64(10*time.Second); len(got) < n; {
		k, err := l.Recv(views)
		if err != nil || l.Now() > end {
			t.Fatalf("%d of %d frames arrived (%v); counted %+v", len(got), n, err, l.Stats())
		}
		for _, v := range views[:k] {
			got = append(got, string(v))
		}
		if k == 0 {
			if err := l.Wait(end); err != nil {
				t.Fatal(err)
			}
		}
	}
	return got
}

// TestAllWays: a batch with frames for another host, for another station of
// this one, for the link itself and for all, some longer than the wire's MTU.
func TestAllWays(t *testing.T) {
	p := vethtest.New(t, 1500)
	a, b, c := open(t, p, 0, "Ring"), open(t, p, 0, "Ring"), open(t, p, 1, "Ring")
	long := make([]byte, a.LocalMTU()+14-62)
	to := func(l transport.Link, payload []byte) transport.Frame {
		return transport.Frame{Head: linktest.NewFrame(a.Info(), l.Info(), l.Info().Ports.Lo, payload)}
	}
	batch := []transport.Frame{to(b, []byte("b")), to(c, []byte("c")), to(a, []byte("a")), to(b, long), to(a, long), to(c, []byte("c2"))}
	if n, err := a.Send(batch); n != len(batch) || err != nil {
		t.Fatalf("Send = %d, %v", n, err)
	}
	for _, want := range []struct {
		at     transport.Link
		frames []int
	}{{a, []int{2, 4}}, {b, []int{0, 3}}, {c, []int{1, 5}}} {
		for i, got := range receive(t, want.at, len(want.frames)) {
			if sent := string(batch[want.frames[i]].Head); len(got) < len(sent) || got[:len(sent)] != sent {
				t.Errorf("%s frame %d: got %d bytes, want %d", want.at.Info().Interface, i, len(got), len(sent))
			}
		}
	}
	if n, err := a.Send([]transport.Frame{to(c, long)}); n != 0 || !errors.Is(err, transport.ErrFrameSize) {
		t.Errorf("Send of a long frame to the wire = %d, %v", n, err)
	}
	st := a.Stats()
	if st.TxFrames != 6 || st.RxFrames != 2 || st.TxDrops != 0 {
		t.Errorf("counted %+v", st)
	}
}

// TestNearby: the link tells frames that came through shared memory from those of the wire.
func TestNearby(t *testing.T) {
	p := vethtest.New(t, 1500)
	a, b, c := open(t, p, 0, "Ring"), open(t, p, 0, "Ring"), open(t, p, 1, "Ring")
	for _, tc := range []struct {
		from *host.Link
		near bool
	}{{b, true}, {c, false}, {b, true}} {
		f := transport.Frame{Head: linktest.NewFrame(tc.from.Info(), a.Info(), a.Info().Ports.Lo, []byte("x"))}
		if n, err := tc.from.Send([]transport.Frame{f}); n != 1 || err != nil {
			t.Fatalf("Send = %d, %v", n, err)
		}
		receive(t, a, 1)
		if a.Nearby() != tc.near {
			t.Errorf("a frame through memory, %v: Nearby is %v", tc.near, a.Nearby())
		}
	}
}

// TestBothWake: a waiting link is woken by the wire and by its neighbour.
func TestBothWake(t *testing.T) {
	for outer := range outers {
		p := vethtest.New(t, 1500)
		a, b, c := open(t, p, 0, outer), open(t, p, 0, outer), open(t, p, 1, outer)
		for i := range 100 {
			from := []transport.Link{b, c, a}[i%3]
			f := linktest.NewFrame(from.Info(), a.Info(), a.Info().Ports.Lo, []byte("wake up"))
			before := a.Stats().Waits
			waited := make(chan error, 1)
			go func() { waited <- a.Wait(transport.Forever) }()
			for from != a && a.Stats().Waits == before && len(waited) == 0 { // a Wait may return for no reason, uncounted
				runtime.Gosched()
			}
			from.Send([]transport.Frame{{Head: f}})
			select {
			case err := <-waited:
				if err != nil {
					t.Fatal(err)
				}
			case <-time.After(10 * time.Second):
				t.Fatalf("%s: round %d: Wait has not returned", outer, i)
			}
			receive(t, a, 1)
		}
	}
}

// TestTaken: the ports of an address are one station's.
func TestTaken(t *testing.T) {
	p := vethtest.New(t, 1500)
	a := open(t, p, 0, "Ring")
	err := p.In(0, func() error {
		_, err := host.Join(a, nil)
		return err
	})
	if !errors.Is(err, unix.EADDRINUSE) {
		t.Errorf("Join = %v, want EADDRINUSE", err)
	}
}

// TestBroadcastWhileDown: while the interface is down, the stations of this host
// reach each other still, by frames to all too.
func TestBroadcastWhileDown(t *testing.T) {
	for outer := range outers {
		p := vethtest.New(t, 1500)
		a, b := open(t, p, 0, outer), open(t, p, 0, outer)
		to := b.Info()
		to.MAC = ethertype.Broadcast
		all := []transport.Frame{{Head: linktest.NewFrame(a.Info(), to, ethertype.PortAll, []byte("who is there"))}}
		if n, err := a.Send(all); n != 1 || err != nil {
			t.Fatalf("%s: Send = %d, %v", outer, n, err)
		}
		receive(t, b, 1)
		if err := p.SetUp(0, false); err != nil {
			t.Fatal(err)
		}
		if n, err := a.Send(all); n != 0 || !errors.Is(err, transport.ErrLinkDown) {
			t.Errorf("%s: Send while the interface is down = %d, %v; want ErrLinkDown", outer, n, err)
		}
		receive(t, b, 1)
		long := []transport.Frame{{Head: append(all[0].Head, make([]byte, 2000)...)}}
		if n, err := a.Send(long); n != 0 || !errors.Is(err, transport.ErrFrameSize) {
			t.Errorf("%s: Send of a frame to all that is too long for the wire = %d, %v", outer, n, err)
		}
		if n, err := b.Recv(make([][]byte, 1)); n != 0 {
			t.Errorf("%s: it was delivered to this host (%v)", outer, err)
		}
	}
}

// openTraced opens a joined link whose outer link does not watch the bell.
func openTraced(t *testing.T, p *vethtest.Pair) (l *host.Link) {
	t.Helper()
	err := p.In(0, func() error {
		outer, err := ring.Open(t.Context(), &ring.Config{Interface: vethtest.Name})
		if err == nil {
			l, err = host.Join(trace.New(outer, io.Discard), nil)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// ringEmpty sends nothing, in a datagram, to every bell of the namespace.
func ringEmpty() error {
	text, err := os.ReadFile("/proc/thread-self/net/unix")
	if err != nil {
		return err
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	rung := 0
	for line := range strings.Lines(string(text)) {
		_, name, _ := strings.Cut(strings.TrimSpace(line), "@")
		if !strings.Contains(name, "/bell/") {
			continue
		}
		if err := unix.Sendto(fd, nil, unix.MSG_DONTWAIT, &unix.SockaddrUnix{Name: "@" + name}); err != nil {
			return err
		}
		rung++
	}
	if rung == 0 {
		return fmt.Errorf("there is no bell in:\n%s", text)
	}
	return nil
}

// TestEmptyRing: anybody can send to a bell, also what looks like the end of a
// file. Neighbours wake the link still.
func TestEmptyRing(t *testing.T) {
	p := vethtest.New(t, 1500)
	a := openTraced(t, p)
	if err := p.In(0, ringEmpty); err != nil {
		t.Fatal(err)
	}
	b := openTraced(t, p)
	f := linktest.NewFrame(b.Info(), a.Info(), a.Info().Ports.Lo, []byte("wake up"))
	b.Send([]transport.Frame{{Head: f}})
	receive(t, a, 1) // from now on there are rings
	for range 3 {
		before := a.Stats().Waits
		waited := make(chan error, 1)
		go func() { waited <- a.Wait(transport.Forever) }()
		for a.Stats().Waits == before && len(waited) == 0 { // a Wait may return for no reason, uncounted
			runtime.Gosched()
		}
		b.Send([]transport.Frame{{Head: f}})
		select {
		case err := <-waited:
			if err != nil {
				t.Fatal(err)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("Wait has not returned")
		}
		receive(t, a, 1)
	}
}

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
