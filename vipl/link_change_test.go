package vipl_test

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/internal/seam"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/internal/viplinks"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/ring"
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// openOn opens a NIC on one side of a veth. It goes on trying to reach a peer
// for longer than a test takes: what ends a connection is the change.
func openOn(t *testing.T, p *vethtest.Pair, side int, driver string) *vipl.NIC {
	t.Helper()
	cfg := driverConfig(driver, side)
	cfg.Reliability = &reliability.Config{MaxTries: 1000}
	return openConfig(t, p, side, cfg)
}

// driverConfig returns how to open a NIC on one side of a veth by a driver, or by
// one of the links that are more than that.
func driverConfig(driver string, side int) *vipl.Config {
	cfg := &vipl.Config{Interface: interfaceOf(driver), Driver: driver}
	switch driver {
	case viplinks.XDP:
		cfg.Driver, cfg.XDP, cfg.Long = "ring", ring.On, ring.Off
	case viplinks.UDP6:
		cfg.Driver, cfg.Interface = "udp", ipOf(six[side])
	}
	return cfg
}

func openConfig(t *testing.T, p *vethtest.Pair, side int, cfg *vipl.Config) (n *vipl.NIC) {
	t.Helper()
	err := p.In(side, func() (err error) { n, err = vipl.Open(t.Context(), cfg); return err })
	if errors.Is(err, unix.EAFNOSUPPORT) {
		need.Skip(t, "a kernel with AF_XDP (CONFIG_XDP_SOCKETS)")
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close() })
	return n
}

// stream is traffic from a to b that goes on until the connection ends.
type stream struct {
	a, b           *vipl.VI
	sent, received chan error // how each side ended
}

// startStream connects NICs and returns when messages have arrived.
func startStream(t *testing.T, nics [2]*vipl.NIC, attr *vipl.Attributes) *stream {
	t.Helper()
	s := &stream{sent: make(chan error, 1), received: make(chan error, 1)}
	s.a, s.b = join(t, nics, attr)
	f := newFlow(t, s.a, s.b, 1<<30, 60_000, 1)
	go func() { s.sent <- f.send() }()
	go func() { s.received <- f.receive() }()
	s.flows(t)
	return s
}

// flows returns when twenty more messages have arrived. It fails the test when
// the connection ends instead.
func (s *stream) flows(t *testing.T) {
	t.Helper()
	start := s.b.Snapshot().Receives
	for end := time.Now().Add(time.Minute); s.b.Snapshot().Receives < start+20; runtime.Gosched() {
		if s.a.State() != vipl.StateConnected || s.b.State() != vipl.StateConnected || time.Now().After(end) {
			t.Fatalf("traffic stands still: %v (%v), %v (%v)", s.a.State(), s.a.Err(), s.b.State(), s.b.Err())
		}
	}
}

// looksTime is longer than NICs take to look at their interfaces.
const looksTime = 300 * time.Millisecond

// flowsFor wants messages to arrive for some time.
func (s *stream) flowsFor(t *testing.T, d time.Duration) {
	t.Helper()
	for end := s.a.NIC().Now() + int64(d); s.a.NIC().Now() < end; {
		s.flows(t)
	}
}

// ends wants both sides to end, the one on side with the error change, which
// names all words, the other one because its peer says so.
func (s *stream) ends(t *testing.T, side int, words ...string) {
	t.Helper()
	within(t, "the end", func() error {
		if err := <-s.sent; !errors.Is(err, vipl.ErrDescriptor) {
			return fmt.Errorf("send: %w", err)
		}
		if err := <-s.received; !errors.Is(err, vipl.ErrDescriptor) {
			return fmt.Errorf("receive: %w", err)
		}
		return nil
	})
	errs := [2]error{s.a.Err(), s.b.Err()}
	for i, err := range errs {
		own := i == side
		if errors.Is(err, vipl.ErrLink) != own || errors.Is(err, vipl.ErrPeerLink) == own || errors.Is(err, transport.ErrChanged) != own {
			t.Errorf("side %d ended with: %v", i, err)
		}
	}
	for _, w := range words {
		if errs[side] == nil || !strings.Contains(errs[side].Error(), w) {
			t.Errorf("%v: does not say %q", errs[side], w)
		}
	}
}

// onChange runs a test for each driver, for udp with either family, and for a
// ring that sends through AF_XDP, on a fresh veth with NICs on both ends.
func onChange(t *testing.T, mtu int, run func(t *testing.T, p *vethtest.Pair, nics [2]*vipl.NIC, driver string)) {
	for _, driver := range append([]string{viplinks.XDP, viplinks.UDP6}, drivers...) {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			p := vethtest.New(t, mtu)
			addIPs(t, p)
			addIPv6s(t, p)
			run(t, p, [2]*vipl.NIC{openOn(t, p, 0, driver), openOn(t, p, 1, driver)}, driver)
		})
	}
}

// switchOn switches an interface on, and gives it the address back that Linux
// took from it when it went down.
func switchOn(t *testing.T, p *vethtest.Pair, side int, driver string) {
	t.Helper()
	if err := p.SetUp(side, true); err != nil {
		t.Fatal(err)
	}
	if driver == viplinks.UDP6 {
		change6(t, p, side, six[side], netlink.AddrAdd)
	}
}

// isUDP reports whether the stations of a driver are at IP addresses.
func isUDP(driver string) bool { return driver == "udp" || driver == viplinks.UDP6 }

// patient gives peers more time than a test may take.
var patient = &vipl.Attributes{PeerTimeout: time.Hour}

// TestInterfaceDownUp switches each interface off and on again under traffic,
// which goes on, in the way that frames took before.
func TestInterfaceDownUp(t *testing.T) {
	onChange(t, 1500, func(t *testing.T, p *vethtest.Pair, nics [2]*vipl.NIC, driver string) {
		s := startStream(t, nics, patient)
		express := func() uint64 { return seam.Link(nics[0]).Stats().TxXDP }
		for side := range nics {
			if err := p.SetUp(side, false); err != nil {
				t.Fatal(err)
			}
			switchOn(t, p, side, driver)
			sent := express()
			s.flows(t)
			if driver == viplinks.XDP && express() == sent {
				t.Error("no frame was sent through AF_XDP")
			}
		}
	})
}

// TestMTURaised raises the MTU of either side under traffic, which goes on.
func TestMTURaised(t *testing.T) {
	onChange(t, 1500, func(t *testing.T, p *vethtest.Pair, nics [2]*vipl.NIC, _ string) {
		s := startStream(t, nics, patient)
		for side := range nics {
			if err := p.SetMTU(side, 9000); err != nil {
				t.Fatal(err)
			}
			s.flows(t)
		}
		s.flowsFor(t, looksTime)
	})
}

// TestMTULowered lowers the MTU of one side under traffic in either direction.
// The connection ends and says why; a new one on the same NICs uses what is
// left, and again all when the MTU is what it was.
func TestMTULowered(t *testing.T) {
	for side := range 2 {
		t.Run(fmt.Sprint("side", side), func(t *testing.T) {
			onChange(t, 9000, func(t *testing.T, p *vethtest.Pair, nics [2]*vipl.NIC, _ string) {
				s := startStream(t, nics, patient)
				if err := p.SetMTU(side, 4000); err != nil {
					t.Fatal(err)
				}
				s.ends(t, side, "MTU of bob0 was 9000 and is 4000", "ip link set dev bob0 mtu 9000")
				startStream(t, nics, patient)
			})
		})
	}
}

// TestMTULoweredEnough lowers an MTU to what the peer has: traffic goes on.
func TestMTULoweredEnough(t *testing.T) {
	p := vethtest.New(t, 9000)
	if err := p.SetMTU(1, 1500); err != nil {
		t.Fatal(err)
	}
	nics := [2]*vipl.NIC{openOn(t, p, 0, "ring"), openOn(t, p, 1, "ring")}
	s := startStream(t, nics, &vipl.Attributes{PeerTimeout: 320 * time.Millisecond}) // looks every 20 ms
	if err := p.SetMTU(0, 1500); err != nil {
		t.Fatal(err)
	}
	s.flowsFor(t, 200*time.Millisecond)
}

// TestHostChanged switches an interface off and on and changes its MTU under
// traffic between two NICs on it, which goes on, whatever the interface could
// carry. Another MAC is another segment: the connection ends and says why.
func TestHostChanged(t *testing.T) {
	for _, driver := range drivers {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			p := vethtest.New(t, 1500)
			addIPs(t, p)
			nics := [2]*vipl.NIC{openOn(t, p, 0, driver), openOn(t, p, 0, driver)}
			s := startStream(t, nics, &vipl.Attributes{PeerTimeout: 1600 * time.Millisecond}) // looks every 100 ms
			for _, change := range []func() error{
				func() error { return p.SetUp(0, false) },
				func() error { return p.SetUp(0, true) },
				func() error { return p.SetMTU(0, 9000) },
				func() error { return p.SetMTU(0, 1000) },
			} {
				if err := change(); err != nil {
					t.Fatal(err)
				}
				s.flowsFor(t, 250*time.Millisecond)
			}
			if err := p.SetMAC(0, otherMAC); err != nil {
				t.Fatal(err)
			}
			if driver == "udp" { // whose stations are at IP addresses
				s.flows(t)
				return
			}
			within(t, "the end", func() error { return errors.Join(notEnded(<-s.sent), notEnded(<-s.received)) })
			for i, v := range []*vipl.VI{s.a, s.b} {
				if err := v.Err(); !errors.Is(err, vipl.ErrLink) && !errors.Is(err, vipl.ErrPeerLink) {
					t.Errorf("side %d ended with: %v", i, err)
				}
			}
			if a, b := s.a.Err(), s.b.Err(); !errors.Is(a, transport.ErrChanged) && !errors.Is(b, transport.ErrChanged) {
				t.Errorf("neither side names the change: %v; %v", a, b)
			}
		})
	}
}

// notEnded returns an error unless err is how a call ends with its connection.
func notEnded(err error) error {
	if errors.Is(err, vipl.ErrDescriptor) {
		return nil
	}
	return fmt.Errorf("ended with %w", err)
}

// otherMAC is what interfaces are changed to.
var otherMAC = ethertype.MAC{2, 0, 0, 0, 0, 0x77}

// TestMACChanged gives either side another MAC under traffic, at each kind of
// level. The connection ends and says why, long before its peer would be given
// up; the NIC is dead, and one opened anew works. With udp, whose stations are
// at IP addresses of either family, traffic goes on.
func TestMACChanged(t *testing.T) {
	for side := range 2 {
		for _, level := range levels {
			t.Run(fmt.Sprint("side", side, level), func(t *testing.T) {
				onChange(t, 1500, func(t *testing.T, p *vethtest.Pair, nics [2]*vipl.NIC, driver string) {
					if !isUDP(driver) {
						changeMAC(t, p, nics, side, level, driver)
						return
					}
					if !level.Reliable() {
						t.Skip("what is lost meanwhile does not come again")
					}
					s := startStream(t, nics, &vipl.Attributes{PeerTimeout: time.Hour, Reliability: level})
					if err := p.SetMAC(side, otherMAC); err != nil {
						t.Fatal(err)
					}
					s.flowsFor(t, looksTime)
				})
			})
		}
	}
}

func changeMAC(t *testing.T, p *vethtest.Pair, nics [2]*vipl.NIC, side int, level reliability.Level, driver string) {
	attr := &vipl.Attributes{PeerTimeout: time.Hour, Reliability: level}
	var s *stream
	if level == reliability.Unreliable {
		s = &stream{sent: make(chan error, 1), received: make(chan error, 1)}
		s.a, s.b = join(t, nics, attr)
		// Nothing is sent, because it might be lost; both sides wait.
		there, back := newFlow(t, s.a, s.b, 1, 1000, 1), newFlow(t, s.b, s.a, 1, 1000, 2)
		go func() { s.sent <- back.receive() }()
		go func() { s.received <- there.receive() }()
	} else {
		s = startStream(t, nics, attr)
	}
	if err := p.SetMAC(side, otherMAC); err != nil {
		t.Fatal(err)
	}
	s.ends(t, side, fmt.Sprintf("MAC of bob0 was %v and is %v", vethtest.MACs[side], otherMAC), "ip link set dev bob0 address")

	v, err := nics[side].CreateVI(nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := v.Connect(bg, nics[1-side].Addr(), nil); !errors.Is(err, vipl.ErrLink) || !errors.Is(err, transport.ErrChanged) {
		t.Errorf("connect from the old MAC: %v", err)
	}
	nics[side].Close()
	nics[side] = openOn(t, p, side, driver)
	if got := nics[side].Addr().MAC; got != otherMAC {
		t.Errorf("the new NIC has the MAC %v, want %v", got, otherMAC)
	}
	startStream(t, nics, patient)
}

// TestMTULoweredIdle lowers the MTU of one side while nothing is connected, at
// the side that will listen and at the one that will connect. Connections made
// then use what is left, and again all when the MTU is what it was.
func TestMTULoweredIdle(t *testing.T) {
	for side := range 2 {
		t.Run(fmt.Sprint("side", side), func(t *testing.T) {
			p := vethtest.New(t, 9000)
			nics := [2]*vipl.NIC{openOn(t, p, 0, "ring"), openOn(t, p, 1, "ring")}
			for _, mtu := range []int{4000, 9000} {
				if err := p.SetMTU(side, mtu); err != nil {
					t.Fatal(err)
				}
				s := startStream(t, nics, patient)
				if err := errors.Join(s.a.Disconnect(), s.b.Disconnect()); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// idleChange is a NIC with nothing connected whose interface has another MAC,
// in the link's time.
func idleChange(t *testing.T) *vipl.NIC {
	t.Helper()
	l, _ := memPair(1500)
	wire := &changedLink{memLink: l}
	n, err := vipl.Open(t.Context(), &vipl.Config{Link: wire, Seed: 1, NoService: true, WireOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close() })
	wire.change = &transport.ChangeError{Interface: "mem", What: "MAC", Old: "this", New: "that"}
	return n
}

// TestMACChangedIdle: with nothing connected, a changed MAC ends what waits for
// the segment, soon, and what is begun afterwards, at once. Each says why.
func TestMACChangedIdle(t *testing.T) {
	peer := ethertype.Addr{MAC: ethertype.MAC{2, 0, 0, 0, 0, 2}, Port: service}
	idle := func(n *vipl.NIC) *vipl.VI {
		v, err := n.CreateVI(nil, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for _, c := range []struct {
		name  string
		limit time.Duration
		call  func(n *vipl.NIC) error
	}{
		{"ListenerWait", time.Second, func(n *vipl.NIC) error {
			l, err := n.Listen(service)
			if err == nil {
				_, err = l.Wait(bg)
			}
			return err
		}},
		{"Lookup", time.Second, func(n *vipl.NIC) error {
			_, err := n.Lookup(bg, "somebody")
			return err
		}},
		{"Connect", time.Millisecond, func(n *vipl.NIC) error { return idle(n).Connect(bg, peer, nil) }},
		{"ConnectPeer", time.Millisecond, func(n *vipl.NIC) error { return idle(n).ConnectPeer(bg, peer, nil) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := idleChange(t)
			began := n.Now()
			within(t, "the end", func() error {
				if err := c.call(n); !errors.Is(err, vipl.ErrLink) || !errors.Is(err, transport.ErrChanged) || !strings.Contains(err.Error(), "MAC of mem was this and is that") {
					return fmt.Errorf("%w: want that the MAC has changed", err)
				}
				return nil
			})
			if took := time.Duration(n.Now() - began); took > c.limit {
				t.Errorf("took %v, want at most %v", took, c.limit)
			}
		})
	}
}

// TestMACChangedRequest: a request that came before the MAC changed cannot be
// accepted, and that is said at once.
func TestMACChangedRequest(t *testing.T) {
	la, lb := memPair(1500)
	wire := &changedLink{memLink: la}
	open := func(link transport.Link) *vipl.NIC {
		n, err := vipl.Open(t.Context(), &vipl.Config{Link: link, Seed: 1, NoService: true, WireOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { n.Close() })
		return n
	}
	na, nb := open(wire), open(lb)
	l, err := na.Listen(service)
	if err != nil {
		t.Fatal(err)
	}
	a, _ := na.CreateVI(nil, nil, nil)
	b, _ := nb.CreateVI(nil, nil, nil)
	if err := b.ConnectStart(l.Addr(), nil); err != nil {
		t.Fatal(err)
	}
	r, err := taken(l, nb)
	if err != nil {
		t.Fatal(err)
	}
	wire.change = &transport.ChangeError{Interface: "mem", What: "MAC", Old: "this", New: "that"}
	var refused *vipl.ConnError
	if err := r.AcceptStart(a); !errors.As(err, &refused) || !errors.Is(err, transport.ErrChanged) || refused.Remote != b.Local() {
		t.Errorf("accept: %v, want an error that names the change and the peer", err)
	}
}

// TestMACChangedCatastrophic: a changed MAC is of the same consequence as a closed
// link, and is told as that, before the connections that it ends.
func TestMACChangedCatastrophic(t *testing.T) {
	n := idleChange(t)
	told := watch(t, n)
	v, err := n.CreateVI(nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := v.Connect(bg, ethertype.Addr{MAC: ethertype.MAC{2, 0, 0, 0, 0, 2}, Port: service}, nil); !errors.Is(err, vipl.ErrLink) {
		t.Fatal(err)
	}
	for range 3 {
		n.Poll()
	}
	told.want(vipl.AsyncError{Code: vipl.CodeCatastrophic, Resource: vipl.ResourceNIC, Err: vipl.ErrLink})
}

// movedLink is a memLink whose station has an address of its own, as udp's have:
// the interface below can be given another MAC, and nothing ends.
type movedLink struct {
	*memLink
	hardware ethertype.MAC
	check    error
}

func (l *movedLink) Check() error { return l.check }

func (l *movedLink) Info() transport.Info {
	i := l.memLink.Info()
	i.Virtual = false // only such links are looked at
	i.Hardware = l.hardware
	return i
}

// TestMACMoved gives the interface below a side that only listens another MAC, up
// or down: as soon as it is up, that side sends a frame on each connection, and
// no other. Nothing is counted as a fault of the peer's.
func TestMACMoved(t *testing.T) {
	for _, level := range levels {
		for _, down := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v/down=%v", level, down), func(t *testing.T) { moved(t, level, down) })
		}
	}
}

func moved(t *testing.T, level reliability.Level, down bool) {
	d := &duo{t: t}
	d.links[0], d.links[1] = memPair(1500)
	wire := &movedLink{memLink: d.links[0]}
	open := func(link transport.Link, seed uint64) *vipl.NIC {
		n, err := vipl.Open(t.Context(), &vipl.Config{Link: link, Seed: seed, NoService: true, WireOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { n.Close() })
		return n
	}
	d.na, d.nb = open(wire, 1), open(d.links[1], 2)
	for range 2 {
		attr := &vipl.Attributes{Reliability: level, PeerTimeout: time.Hour}
		d.a, _ = d.na.CreateVI(attr, nil, nil)
		d.b, _ = d.nb.CreateVI(attr, nil, nil)
		d.connect()
	}
	looks := func(n int) (frames uint64) {
		d.run()
		sent := func() uint64 { return wire.frames + d.na.Snapshot().TxJoined }
		before := sent()
		for range n {
			*wire.clock += int64(time.Second)
			d.na.Poll()
		}
		return sent() - before
	}
	sweeps := func() uint64 { return looks(4) }
	if n := sweeps(); n != 0 {
		t.Fatalf("%d frames without a reason", n)
	}
	drops := d.nb.Snapshot().Dropped
	wire.hardware = otherMAC
	if down {
		wire.check = fmt.Errorf("%w: the test says so", transport.ErrLinkDown)
		if n := sweeps(); n != 0 {
			t.Errorf("%d frames into an interface that is down", n)
		}
		wire.check = nil
	}
	if n := looks(1); n != 0 {
		t.Errorf("%d frames at once, when the kernel may know its neighbours yet", n)
	}
	if n := sweeps(); n != 2 {
		t.Errorf("%d frames after the change, want one for each of 2 connections", n)
	}
	d.run()
	d.alive()
	if now := d.nb.Snapshot().Dropped; now != drops {
		t.Errorf("the peer has dropped %v, before %v", now, drops)
	}
	if n := sweeps(); n != 0 {
		t.Errorf("%d frames more", n)
	}
}

// TestMACMovedNeighbour changes the MAC of a side that only listens, over udp. The
// peer's kernel knows the new one without anything to send there.
func TestMACMovedNeighbour(t *testing.T) {
	for _, level := range []reliability.Level{reliability.Unreliable, reliability.ReliableDelivery} {
		t.Run(level.String(), func(t *testing.T) {
			t.Parallel()
			p := vethtest.New(t, 1500)
			addIPs(t, p)
			nics := [2]*vipl.NIC{openOn(t, p, 0, "udp"), openOn(t, p, 1, "udp")}
			join(t, nics, &vipl.Attributes{Reliability: level, PeerTimeout: time.Hour})
			for _, mac := range []ethertype.MAC{otherMAC, vethtest.MACs[0]} { // and back
				if err := p.SetMAC(0, mac); err != nil {
					t.Fatal(err)
				}
				seen := func() bool { return seam.Link(nics[0]).Info().Hardware == mac } // else the way back would be no change
				for end := time.Now().Add(10 * time.Second); !seen() || !knows(t, p, 1, "10.9.0.1", mac); runtime.Gosched() {
					if time.Now().After(end) {
						t.Fatalf("the peer does not know that 10.9.0.1 is at %v; this side does: %t", mac, seen())
					}
				}
			}
		})
	}
}

// knows reports whether the kernel of a side believes ip to be at mac.
func knows(t *testing.T, p *vethtest.Pair, side int, ip string, mac ethertype.MAC) (found bool) {
	t.Helper()
	err := p.In(side, func() error {
		link, err := netlink.LinkByName(vethtest.Name)
		if err != nil {
			return err
		}
		neighbours, err := netlink.NeighList(link.Attrs().Index, netlink.FAMILY_V4)
		for _, n := range neighbours {
			found = found || n.IP.String() == ip && bytes.Equal(n.HardwareAddr, mac[:])
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// changedLink is a memLink whose interface can be given another MAC: it says so
// when it is asked, and receives nothing any more. The test moves its clock.
type changedLink struct {
	*memLink
	change error
}

func (l *changedLink) Check() error { return l.change }

func (l *changedLink) Recv(views [][]byte) (int, error) {
	if l.change != nil {
		return 0, nil
	}
	return l.memLink.Recv(views)
}

func (l *changedLink) Info() transport.Info {
	i := l.memLink.Info()
	i.Virtual = false // only such links are looked at
	return i
}

// TestMACChangeNoticed gives one side another MAC, in the link's time: both
// sides know long before a peer that is silent would be given up.
func TestMACChangeNoticed(t *testing.T) {
	for _, level := range levels {
		for _, limit := range []time.Duration{100 * time.Millisecond, time.Second, vipl.DefaultPeerTimeout, time.Hour} {
			for _, busy := range []bool{false, true} {
				t.Run(fmt.Sprintf("%v/%v/busy=%v", level, limit, busy), func(t *testing.T) {
					noticed(t, level, limit, busy)
				})
			}
		}
	}
}

func noticed(t *testing.T, level reliability.Level, limit time.Duration, busy bool) {
	d := &duo{t: t}
	d.links[0], d.links[1] = memPair(1500)
	wire := &changedLink{memLink: d.links[0]}
	for side, link := range []transport.Link{wire, d.links[1]} {
		n, err := vipl.Open(t.Context(), &vipl.Config{Link: link, Seed: uint64(side) + 1, NoService: true, WireOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { n.Close() })
		if side == 0 {
			d.na = n
		} else {
			d.nb = n
		}
	}
	attr := &vipl.Attributes{Reliability: level, PeerTimeout: limit}
	d.a, _ = d.na.CreateVI(attr, nil, nil)
	d.b, _ = d.nb.CreateVI(attr, nil, nil)
	d.connect()
	within := min(limit, vipl.DefaultPeerTimeout) / 8
	if level == reliability.Unreliable { // whose peers are never given up
		within = vipl.DefaultPeerTimeout / 8
	}
	clock := d.links[0].clock
	for range 1000 { // some life before
		*clock += int64(within) / 1000
		d.na.Poll()
		d.nb.Poll()
	}
	d.alive()
	if busy {
		d.post(d.b, 100)
		d.send(d.a, 100)
		d.post(d.a, 100)
		d.send(d.b, 100)
	}
	wire.change = &transport.ChangeError{Interface: "mem", What: "MAC", Old: "this", New: "that"}
	end := *clock + int64(within)
	for *clock < end && (d.a.State() == vipl.StateConnected || d.b.State() == vipl.StateConnected) {
		*clock += int64(within) / 1000
		d.na.Poll()
		d.nb.Poll()
	}
	if err := d.a.Err(); !errors.Is(err, vipl.ErrLink) || errors.Is(err, vipl.ErrPeerLink) {
		t.Errorf("a: %v, want the end of its own link", err)
	}
	if err := d.b.Err(); errors.Is(err, vipl.ErrLink) || !errors.Is(err, vipl.ErrPeerLink) {
		t.Errorf("b: %v, want the end of its peer's link, not of its own", err)
	}
	if !errors.Is(d.a.Err(), transport.ErrChanged) || errors.Is(d.b.Err(), transport.ErrChanged) {
		t.Errorf("a: %v, b: %v; the change was a's", d.a.Err(), d.b.Err())
	}
}
