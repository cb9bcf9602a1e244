package udp_test

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/link/linktest"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/udp"
	"golang.org/x/sys/unix"
)

// etherType keeps out the broadcasts of other tests on the loopback.
var etherType = vethtest.EtherType()

// open opens a link on the loopback and closes it when the test ends.
func open(t testing.TB, ip string, cfg udp.Config) *udp.Link {
	t.Helper()
	cfg.Interface, cfg.EtherType = ip, etherType
	l, err := udp.Open(t.Context(), &cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// suited is a link for linktest. The suite's test of overflowing queues fills
// them by number of frames; those of UDP count bytes.
type suited struct{ *udp.Link }

func (s suited) Info() transport.Info {
	info := s.Link.Info()
	info.Slots = 0
	return info
}

// Two stations of the loopback, which needs no privilege.
var ipA, ipB = vethtest.Loopback(1), vethtest.Loopback(2)

func TestLoopback(t *testing.T) {
	for name, cfg := range map[string]udp.Config{
		"Plain":      {},
		"NoSegments": {NoSegments: true},
		"MTU1500":    {MTU: 1500 - 42},
		"MTU68":      {MTU: 68},
	} {
		t.Run(name, func(t *testing.T) {
			linktest.Run(t, func(t *testing.T) linktest.Pair {
				return linktest.Pair{A: suited{open(t, ipA, cfg)}, B: suited{open(t, ipB, cfg)}, C: suited{open(t, ipB, cfg)}}
			})
		})
	}
}

// receive returns the next n frames that arrive at l.
func receive(t *testing.T, l transport.Link, n int) (frames []string) {
	t.Helper()
	views := make([][]byte, transport.MaxBatch)
	for end := l.Now() + int64(10*time.Second); len(frames) < n; {
		k, err := l.Recv(views[:min(len(views), n-len(frames))])
		if err != nil || l.Now() > end {
			t.Fatalf("%d of %d frames: %v, counted %+v", len(frames), n, err, l.Stats())
		}
		for _, v := range views[:k] {
			frames = append(frames, string(v))
		}
		if k == 0 {
			if err := l.Wait(end); err != nil {
				t.Fatal(err)
			}
		}
	}
	return frames
}

// none fails the test if a frame is there.
func none(t *testing.T, l transport.Link) {
	t.Helper()
	views := make([][]byte, 1)
	if n, err := l.Recv(views); n != 0 || err != nil {
		t.Fatalf("Recv = %d, %v; want nothing: %x", n, err, views)
	}
}

func send(t *testing.T, l transport.Link, frames ...transport.Frame) {
	t.Helper()
	if n, err := l.Send(frames); n != len(frames) || err != nil {
		t.Fatalf("Send = %d, %v; want %d", n, err, len(frames))
	}
}

func frameTo(from, to transport.Link, payload []byte) transport.Frame {
	return transport.Frame{Head: linktest.NewFrame(from.Info(), to.Info(), to.Info().Ports.Lo, payload)}
}

// TestSegments sends batches of equal frames, over either family, within a host
// and between two, and counts system calls: all of a batch leave in one and arrive
// in one.
func TestSegments(t *testing.T) {
	type pair func(*testing.T) (a, b *udp.Link)
	local := func(ipA, ipB string) pair {
		return func(t *testing.T) (a, b *udp.Link) {
			return open(t, ipA, udp.Config{MTU: 1400}), open(t, ipB, udp.Config{MTU: 1400})
		}
	}
	veth := func(addrs [2]string) pair {
		return func(t *testing.T) (a, b *udp.Link) {
			p := vethtest.New(t, 1500)
			give(t, p, 0, addrs[0])
			give(t, p, 1, addrs[1])
			return openIn(t, p, 0, udp.Config{}), openIn(t, p, 1, udp.Config{})
		}
	}
	for name, links := range map[string]pair{
		"IPv4/Loopback": local(ipA, ipB),
		"IPv6/Loopback": local("::1", "::1"),
		"IPv4/Veth":     veth(four),
		"IPv6/Veth":     veth(six),
	} {
		t.Run(name, func(t *testing.T) {
			a, b := links(t)
			if six := strings.HasPrefix(name, "IPv6"); a.Addr().Is6() != six || b.Addr().Is6() != six {
				t.Fatalf("the links are at %v and %v", a.Addr(), b.Addr())
			}
			segments(t, a, b)
		})
	}
}

func segments(t *testing.T, a, b *udp.Link) {
	batch := make([]transport.Frame, 40)
	for i := range batch {
		batch[i] = frameTo(a, b, append(make([]byte, 1300), byte(i)))
	}
	batch[39] = frameTo(a, b, []byte("the last is shorter"))
	send(t, b, frameTo(b, a, nil)) // by which a learns where b is, if that is IPv6
	receive(t, a, 1)
	none(t, b) // the copy of it that the kernel gives to its sender
	sent, received := a.Stats().TxCalls, b.Stats().RxCalls
	for range 20 {
		send(t, a, batch...)
		for i, f := range receive(t, b, len(batch)) {
			if f != string(batch[i].Head) {
				t.Fatalf("frame %d differs", i)
			}
		}
	}
	if n := a.Stats().TxCalls - sent; n != 20 {
		t.Errorf("%d system calls to send 20 batches", n)
	}
	if n := b.Stats().RxCalls - received; n != 20 {
		t.Errorf("%d system calls to receive 20 batches", n)
	}
}

// TestMixed sends batches of every mixture of sizes and places.
func TestMixed(t *testing.T) {
	a, b, c := open(t, ipA, udp.Config{}), open(t, ipB, udp.Config{}), open(t, ipB, udp.Config{})
	sizes := []int{0, 0, 100, 100, 100, 40, 40, 3, 60000, 60000, 3, 3, 40, 0}
	for shift := range len(sizes) {
		var batch []transport.Frame
		var want [2][]string
		for i, n := range sizes {
			to := []*udp.Link{b, c}[(i>>1+shift)&1&(i+shift)/5]
			f := frameTo(a, to, make([]byte, n))
			if i%3 == 0 {
				f = transport.Frame{Head: f.Head[:62], Body: [][]byte{f.Head[62:], nil}}
			}
			batch = append(batch, f)
			side := 0
			if to == c {
				side = 1
			}
			want[side] = append(want[side], string(f.AppendTo(nil)))
		}
		send(t, a, batch...)
		for side, l := range []*udp.Link{b, c} {
			if got := receive(t, l, len(want[side])); fmt.Sprint(got) != fmt.Sprint(want[side]) {
				t.Fatalf("shift %d: link %d received other frames", shift, side)
			}
			none(t, l)
		}
	}
}

// TestPorts claims overlapping ports.
func TestPorts(t *testing.T) {
	ip := vethtest.Loopback(9)
	first := open(t, ip, udp.Config{})
	if got, want := first.Info().Ports, (transport.PortRange{Lo: 1024, Hi: 2047}); got != want {
		t.Errorf("the first link has ports %v, want %v", got, want)
	}
	if second := open(t, ip, udp.Config{}); second.Info().Ports.Lo != 2048 {
		t.Errorf("the second link has ports %v", second.Info().Ports)
	}
	open(t, ip, udp.Config{Ports: transport.PortRange{Lo: 7, Hi: 9}})
	open(t, ip, udp.Config{BasePort: 40000, Ports: transport.PortRange{Lo: 1024, Hi: 1024}})
	for _, taken := range []transport.PortRange{{Lo: 2000, Hi: 2000}, {Lo: 1, Hi: 1}, transport.AllPorts} {
		_, err := udp.Open(t.Context(), &udp.Config{Interface: ip, Ports: taken})
		if !errors.Is(err, unix.EADDRINUSE) || !strings.Contains(err.Error(), "ss -ulpn") {
			t.Errorf("ports %v: %v", taken, err)
		}
	}
	first.Close()
	if third := open(t, ip, udp.Config{}); third.Info().Ports.Lo != 1024 {
		t.Errorf("ports after Close: %v, want those that became free", third.Info().Ports)
	}
}

// TestAllPorts has a link with every block, which hears and speaks on each.
func TestAllPorts(t *testing.T) {
	a, b := open(t, ipA, udp.Config{}), open(t, vethtest.Loopback(3), udp.Config{Ports: transport.AllPorts})
	var there, back []transport.Frame
	for port := 1; port < 1<<16; port += 2000 {
		there = append(there, transport.Frame{Head: linktest.NewFrame(a.Info(), b.Info(), uint16(port), nil)})
		from := b.Info()
		from.Ports.Lo = uint16(port)
		back = append(back, transport.Frame{Head: linktest.NewFrame(from, a.Info(), a.Info().Ports.Lo, []byte{1})})
	}
	send(t, a, there...)
	got := map[string]int{}
	for _, f := range receive(t, b, len(there)) {
		got[f]++
	}
	for i, f := range there {
		if got[string(f.Head)] != 1 {
			t.Errorf("frame %d came %d times", i, got[string(f.Head)])
		}
	}
	send(t, b, back...)
	for i, f := range receive(t, a, len(back)) {
		if f != string(back[i].Head) {
			t.Errorf("frame %d differs", i)
		}
	}
}

// TestOwnStation sends to a link at the same address, to itself, and to all
// there, which is all others.
func TestOwnStation(t *testing.T) {
	a, b := open(t, ipA, udp.Config{}), open(t, ipA, udp.Config{})
	f, self := frameTo(a, b, []byte("b")), frameTo(a, a, []byte("a"))
	send(t, a, f, self)
	if got := receive(t, b, 1); got[0] != string(f.Head) {
		t.Errorf("b received %x", got)
	}
	if got := receive(t, a, 1); got[0] != string(self.Head) {
		t.Errorf("a received %x", got)
	}
	all := transport.Frame{Head: linktest.NewFrame(a.Info(), a.Info(), ethertype.PortAll, nil)}
	send(t, a, all)
	if got := receive(t, b, 1); got[0] != string(all.Head) {
		t.Errorf("b received %x", got)
	}
	none(t, a)
}

// TestBelieved sends frames whose source does not fit the datagram's.
func TestBelieved(t *testing.T) {
	a, b := open(t, ipA, udp.Config{}), open(t, ipB, udp.Config{})
	mac, port := frameTo(a, b, []byte("mac")), frameTo(a, b, []byte("port"))
	mac.Head[11] ^= 9 // of another host
	port.Head[20] ^= 8
	good := frameTo(a, b, []byte("good"))
	send(t, a, mac, good, port, good)
	receive(t, b, 2)
	none(t, b)
	if st := b.Stats(); st.RxFiltered != 2 || st.RxFrames != 2 {
		t.Errorf("counted %+v, want 2 filtered", st)
	}
}

// TestPeers has broadcasts go to peers one by one, besides the group of an EtherType that
// is not the default.
func TestPeers(t *testing.T) {
	peers := []netip.Addr{netip.MustParseAddr(ipB), netip.MustParseAddr(ipA)}
	a := open(t, ipA, udp.Config{Peers: peers})
	b, c := open(t, ipB, udp.Config{}), open(t, ipB, udp.Config{})
	to := transport.Info{MAC: ethertype.Broadcast}
	all := transport.Frame{Head: linktest.NewFrame(a.Info(), to, ethertype.PortAll, []byte("all"))}
	one := transport.Frame{Head: linktest.NewFrame(a.Info(), to, c.Info().Ports.Lo, []byte("one"))}
	send(t, a, all, one)
	// Both ways, by the group and by name, lead to the peer: a copy each.
	for l, want := range map[*udp.Link]int{b: 2, c: 4} {
		receive(t, l, want)
		none(t, l)
	}
	none(t, a)
}

func TestNowhere(t *testing.T) {
	a, b := open(t, ipA, udp.Config{}), open(t, ipB, udp.Config{})
	f := frameTo(a, b, nil)
	f.Head[1] = 0x76 // no station's
	send(t, a, f, frameTo(a, b, nil), f)
	receive(t, b, 1)
	if st := a.Stats(); st.TxDrops != 2 || st.TxFrames != 1 {
		t.Errorf("counted %+v, want 2 drops", st)
	}
}

// TestDrops fills the receive buffer until the kernel counts drops, and then
// accounts for every frame: by itself, and in messages of 30, which the kernel
// drops, and counts, as a whole.
func TestDrops(t *testing.T) {
	for _, batch := range []int{1, 30} {
		a, b := open(t, ipA, udp.Config{MTU: 1458}), open(t, ipB, udp.Config{MTU: 1458})
		frames := make([]transport.Frame, batch)
		for i := range frames {
			frames[i] = frameTo(a, b, make([]byte, 1000))
		}
		sent := 0
		for ; b.Stats().RxDrops == 0; sent += batch {
			if send(t, a, frames...); sent > 1<<20 {
				t.Fatalf("%d frames, and none was dropped", sent)
			}
		}
		if slots := b.Info().Slots; sent <= slots {
			t.Errorf("%d frames were too many, and Slots promises %d", sent, slots)
		}
		dropped := int(b.Stats().RxDrops) * batch
		receive(t, b, sent-dropped)
		none(t, b)
		if st := b.Stats(); int(st.RxFrames)+dropped != sent {
			t.Errorf("sent %d, counted %+v", sent, st)
		}
	}
}

func TestConfig(t *testing.T) {
	for name, test := range map[string]struct {
		cfg  udp.Config
		want error
		text string
	}{
		"Network":   {udp.Config{Network: "tcp"}, unix.EINVAL, "udp4"},
		"BasePort":  {udp.Config{BasePort: 65500}, unix.EINVAL, "61952"},
		"Ports":     {udp.Config{Ports: transport.PortRange{Lo: 9, Hi: 8}}, unix.EINVAL, "Lo <= Hi"},
		"MTU":       {udp.Config{MTU: 67}, unix.EINVAL, "at least 68"},
		"Interface": {udp.Config{Interface: "no-such0"}, transport.ErrInterface, "there are: lo (up, 127.0.0.1"},
		"Family":    {udp.Config{Interface: ipA, Network: "udp6"}, transport.ErrInterface, "IPv6"},
		"Peer":      {udp.Config{Interface: ipA, Peers: []netip.Addr{netip.IPv6Loopback()}}, unix.EINVAL, "::1"},
	} {
		l, err := udp.Open(t.Context(), &test.cfg)
		if !errors.Is(err, test.want) || !strings.Contains(fmt.Sprint(err), test.text) {
			t.Errorf("%s: %v, want %v and %q", name, err, test.want, test.text)
		}
		if l != nil {
			l.Close()
		}
	}
}

func TestNoLeak(t *testing.T) {
	count := func() int {
		fds, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(fds)
	}
	cycle := func() {
		l, err := udp.Open(t.Context(), &udp.Config{Interface: ipA})
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
		if _, err := udp.Open(t.Context(), &udp.Config{Interface: "192.0.2.77"}); err == nil {
			t.Fatal("an address of nobody was accepted")
		}
	}
	cycle()
	before := count()
	for range 50 {
		cycle()
	}
	if after := count(); after != before {
		t.Errorf("%d descriptors after 50 links, %d before", after, before)
	}
}
