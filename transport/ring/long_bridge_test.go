package ring_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/internal/link/linktest"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/ring"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// TestLongBridge: links pass the suite with long frames across a bridge, whatever its MTU.
func TestLongBridge(t *testing.T) {
	for _, mtu := range []int{1500, 9000} {
		t.Run(fmt.Sprint(mtu), func(t *testing.T) {
			if testing.Short() && mtu != 1500 {
				t.Skip("-short: MTU 1500 only")
			}
			p := vethtest.NewBridged(t, mtu, mtu)
			linktest.Run(t, func(t *testing.T) linktest.Pair {
				return linktest.Pair{A: open(t, p, 0, ring.Config{Long: ring.On}), B: open(t, p, 1, ring.Config{Slots: 64, Long: ring.On}), C: open(t, p, 1, ring.Config{Slots: 64})}
			})
		})
	}
}

// longPair opens a link on each side, with long frames.
func longPair(t *testing.T, p *vethtest.Pair) (a, b *ring.Link) {
	a, b = open(t, p, 0, ring.Config{Long: ring.On}), open(t, p, 1, ring.Config{Long: ring.On})
	if !a.StartLong() || !b.StartLong() || !a.ReceiveLong(true) || !b.ReceiveLong(true) {
		t.Fatal("no long frames")
	}
	return a, b
}

// sendOne sends one frame from a to b with so many bytes.
func sendOne(t *testing.T, a, b *ring.Link, payload []byte) {
	t.Helper()
	f := linktest.NewFrame(a.Info(), b.Info(), b.Info().Ports.Lo, payload)
	if n, err := a.Send([]transport.Frame{{Head: f}}); n != 1 || err != nil {
		t.Fatalf("Send = %d, %v", n, err)
	}
}

// recvOne returns the payload of the next frame.
func recvOne(t *testing.T, b *ring.Link) []byte {
	t.Helper()
	views := make([][]byte, 1)
	for end := b.Now() + int64(10*time.Second); ; {
		n, err := b.Recv(views)
		switch {
		case err != nil:
			t.Fatal(err)
		case n == 1 && b.Rest() == 0:
			return bytes.Clone(views[0][ethertype.HeaderSize:])
		case n == 1:
			data := make([]byte, len(views[0])+b.Rest()-ethertype.HeaderSize)
			if !b.Fetch(ethertype.HeaderSize, [][]byte{data}) {
				t.Fatal("a long frame's end is not there")
			}
			return data
		case b.Now() > end:
			t.Fatalf("no frame; counters %+v", b.Stats())
		}
		if err := b.Wait(end); err != nil {
			t.Fatal(err)
		}
	}
}

// TestLongCut: long frames that the path cuts are joined: by the sender's kernel, which lacks offloads, and by a card on the way,
// with and without a receiving host that joins segments itself. Other frames pass in order. Cut tells.
func TestLongCut(t *testing.T) {
	for _, mtu := range []int{1500, 9000} {
		for name, prepare := range map[string]func(p *vethtest.Pair) error{
			"kernel": func(p *vethtest.Pair) error { return p.SetOffloads(0, false) },
			"card":   func(p *vethtest.Pair) error { return p.SetCard(1, false) },
			"GRO":    func(p *vethtest.Pair) error { return p.SetCard(1, true) },
		} {
			t.Run(fmt.Sprintf("%s/%d", name, mtu), func(t *testing.T) {
				p := vethtest.NewBridged(t, mtu, mtu)
				a, b := longPair(t, p)
				if err := prepare(p); err != nil {
					t.Fatal(err)
				}
				segments := uint64(0)
				for i, size := range []int{mtu, 40_000, framing.LongMTU - ethertype.BaseSize} {
					payload := bytes.Repeat([]byte{byte(i), 2, 3, 4, 5, 6, 7}, size/7+1)[:size]
					sendOne(t, a, b, payload)
					sendOne(t, a, b, []byte("short"))
					if got := recvOne(t, b); !bytes.Equal(got, payload) {
						t.Fatalf("%d bytes arrived first, not the %d that were sent", len(got), size)
					}
					if name != "GRO" && !b.Cut() {
						t.Errorf("the frame of %d bytes counts as whole", size)
					}
					if got := recvOne(t, b); !bytes.HasPrefix(got, []byte("short")) {
						t.Fatalf("%d bytes arrived second", len(got))
					}
					segments += uint64((ethertype.BaseSize + size + mtu - framing.LongHeader - 1) / (mtu - framing.LongHeader))
				}
				if n, err := b.Recv(make([][]byte, 1)); n != 0 || err != nil { // after which everything is counted
					t.Fatal(n, err)
				}
				st := b.Stats()
				if (st.RxCut != segments && name != "GRO") || st.RxFrames != 6 || st.RxFiltered+st.RxTorn+st.RxDrops != 0 {
					t.Errorf("%d segments, want %d; counters %+v", st.RxCut, segments, st)
				}
				if err := p.SetOffloads(0, true); err != nil || name != "kernel" {
					return
				}
				sendOne(t, a, b, make([]byte, 40_000))
				if recvOne(t, b); b.Cut() || b.Stats().RxCut != segments {
					t.Errorf("with offloads, long frames arrive cut: %v", b.Cut())
				}
			})
		}
	}
}

// TestLongPieces: pieces of long frames of any length, such as a host makes that joins some segments, are joined in any order,
// among other frames. Those that are forged are counted, and change nothing.
func TestLongPieces(t *testing.T) {
	p := vethtest.New(t, 1500)
	a, b := longPair(t, p)
	const header = ethertype.EthernetSize + framing.LongHeader
	fd, to := packetSocket(t, p, unix.ETH_P_IPV6)
	if err := unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_VNET_HDR, 1); err != nil {
		t.Fatal(err)
	}
	long := func(seed byte) (plain []byte, piece func(from, to int)) {
		plain = linktest.NewFrame(a.Info(), b.Info(), b.Info().Ports.Lo, bytes.Repeat([]byte{seed, seed + 1, 9}, 20_000))
		plain[26] = seed // of the sequence number: the header's CRC is the frame's name
		ethertype.Seal(plain)
		headers := make([]byte, header)
		framing.PutLong(headers, plain, len(plain))
		return plain, func(from, until int) {
			t.Helper()
			vnet := make([]byte, 10) // struct virtio_net_hdr: TCP over IPv6, to be cut
			vnet[0], vnet[1] = 1, 4
			for at, v := range map[int]int{2: header, 4: 1440, 6: ethertype.EthernetSize + 40, 8: 16} {
				binary.NativeEndian.PutUint16(vnet[at:], uint16(v))
			}
			segment := append(bytes.Clone(headers), plain[ethertype.EthernetSize+from:ethertype.EthernetSize+until]...)
			framing.SetSegment(segment, from)
			if err := unix.Sendto(fd, append(vnet, segment...), 0, to); err != nil {
				t.Fatal(err)
			}
		}
	}
	first, piece := long(1)
	second, other := long(100)
	size := len(first) - ethertype.EthernetSize
	piece(0, 20_000)
	other(30_000, 45_000)
	sendOne(t, a, b, []byte("short"))
	piece(45_000, size)
	other(0, 1440)
	piece(19_000, 30_000) // overlaps
	other(45_000, size)
	piece(0, 20_000) // again
	piece(20_000, 45_000)
	other(1440, 30_000)
	for i, want := range [][]byte{[]byte("short"), first[ethertype.HeaderSize:], second[ethertype.HeaderSize:]} {
		if got := recvOne(t, b); !bytes.HasPrefix(got, want) {
			t.Fatalf("frame %d has %d bytes, or others", i, len(got))
		}
	}
	if n, err := b.Recv(make([][]byte, 1)); n != 0 || err != nil {
		t.Fatal(n, err)
	}
	if st := b.Stats(); st.RxCut != 9 || st.RxTorn != 2 || st.RxFrames != 3 || st.RxFiltered+st.RxDrops != 0 {
		t.Errorf("%+v", st)
	}
	// One that was joined and is not fetched makes room for the next frames.
	piece(0, 30_000)
	piece(30_000, size)
	sendOne(t, a, b, bytes.Repeat([]byte("whole..."), 5000))
	views := make([][]byte, 1)
	for n := 0; n == 0; {
		var err error
		if n, err = b.Recv(views); err != nil {
			t.Fatal(err)
		}
	}
	if got := recvOne(t, b); !bytes.HasPrefix(got, []byte("whole...")) {
		t.Errorf("%d bytes arrive behind a frame that nobody has fetched", len(got))
	}
}

// TestLongShort: a forged frame that arrives in segments, and is shorter than the beginning that a view has, is passed on as
// what it is. A Recv that finds only a segment gives its slot back at once, and one
// that finds a frame behind it returns that frame.
func TestLongShort(t *testing.T) {
	p := vethtest.New(t, 1500)
	a, b := longPair(t, p)
	const header = ethertype.EthernetSize + framing.LongHeader
	plain := linktest.NewFrame(a.Info(), b.Info(), b.Info().Ports.Lo, []byte("short"))
	headers := make([]byte, header)
	framing.PutLong(headers, plain, len(plain))
	fd, to := packetSocket(t, p, unix.ETH_P_IPV6)
	views := make([][]byte, 1)
	piece := func(from, until int) {
		t.Helper()
		segment := append(bytes.Clone(headers), plain[ethertype.EthernetSize+from:ethertype.EthernetSize+until]...)
		framing.SetSegment(segment, from)
		if err := unix.Sendto(fd, segment, 0, to); err != nil {
			t.Fatal(err)
		}
	}
	piece(0, ethertype.BaseSize)
	if n, err := b.Recv(views); n != 0 || err != nil || b.Stats().RxCut != 1 {
		t.Fatalf("%d frames, %v, before a frame is whole; counters %+v", n, err, b.Stats())
	}
	piece(ethertype.BaseSize, len(plain)-ethertype.EthernetSize)
	if n, err := b.Recv(views); n != 1 || err != nil || !bytes.Equal(views[0], plain) || b.Rest() != 0 {
		t.Errorf("%d frames, %v: %d bytes, and %d with the link; %d were sent", n, err, len(views[0]), b.Rest(), len(plain))
	}
	piece(0, ethertype.BaseSize)
	sendOne(t, a, b, []byte("behind"))
	if n, err := b.Recv(views); n != 1 || err != nil || !bytes.HasPrefix(views[0][ethertype.HeaderSize:], []byte("behind")) {
		t.Errorf("%d frames, %v, behind a segment", n, err)
	}
}

// TestLongForged sends long frames with each byte of their headers changed, and such as end early or late: none is
// passed on, each is counted or refused by the filter, and the next true one arrives.
func TestLongForged(t *testing.T) {
	p := vethtest.New(t, 1500)
	a, b := longPair(t, p)
	payload := bytes.Repeat([]byte{7}, 1440-ethertype.BaseSize)
	plain := linktest.NewFrame(a.Info(), b.Info(), b.Info().Ports.Lo, payload)
	const header = ethertype.EthernetSize + framing.LongHeader
	long := make([]byte, header)
	framing.PutLong(long, plain, len(plain))
	long = append(long, plain[ethertype.EthernetSize:]...)
	fd, to := packetSocket(t, p, unix.ETH_P_IPV6)
	views := make([][]byte, 1)
	inject := func(f []byte) (got int, before, after transport.Stats) {
		t.Helper()
		before = b.Stats()
		if err := unix.Sendto(fd, f, 0, to); err != nil {
			t.Fatal(err)
		}
		for range 2 { // the second of which has everything counted
			n, err := b.Recv(views)
			if err != nil {
				t.Fatal(err)
			}
			got += n
		}
		return got, before, b.Stats()
	}
	for i := ethertype.EthernetSize; i < header+8; i++ {
		for _, flip := range []byte{1, 0x80, 0xff} {
			f := bytes.Clone(long)
			f[i] ^= flip
			got, before, after := inject(f)
			checksum := i == ethertype.EthernetSize+56 || i == ethertype.EthernetSize+57
			free := i > header && i < header+4 // kind and flags: the CRC of the Bobnet header has them
			if (got == 1) != (checksum || free) {
				t.Errorf("with byte %d changed by %#x, %d frames arrived", i, flip, got)
			}
			counted := after.RxCut + after.RxFiltered + after.RxDrops - before.RxCut - before.RxFiltered - before.RxDrops // torn ones are segments
			filtered := i == framing.LongProtocol || i >= framing.LongDst && i < framing.LongDst+4 || i == framing.LongDstPort || i == framing.LongDstPort+1
			if got == 0 && counted != 1 && !filtered {
				t.Errorf("with byte %d changed by %#x, %d were counted", i, flip, counted)
			}
		}
	}
	for _, size := range []int{20, ethertype.EthernetSize + 40, header, header + 1, header + 47, 500, len(long) - 1} {
		if got, _, _ := inject(long[:size]); got != 0 {
			t.Errorf("%d bytes of a long frame are passed on", size)
		}
	}
	if got, _, _ := inject(long); got != 1 {
		t.Errorf("%d true frames arrived", got)
	}
	if got := make([]byte, len(payload)); !b.Fetch(ethertype.HeaderSize, [][]byte{got}) && b.Rest() > 0 {
		t.Error("the true frame's end is not there")
	}
}

// TestLongMacvlan: links on macvlans over a bridge carry long frames whole.
func TestLongMacvlan(t *testing.T) {
	p := vethtest.NewBridged(t, 1500, 1500)
	var links [2]*ring.Link
	for side := range links {
		err := p.In(side, func() error {
			below, err := netlink.LinkByName(vethtest.Name)
			if err != nil {
				return err
			}
			attrs := netlink.NewLinkAttrs()
			attrs.Name, attrs.ParentIndex = "above", below.Attrs().Index
			above := &netlink.Macvlan{LinkAttrs: attrs, Mode: netlink.MACVLAN_MODE_BRIDGE}
			if err := netlink.LinkAdd(above); err != nil {
				return err
			}
			if err := netlink.LinkSetUp(above); err != nil {
				return err
			}
			links[side], err = ring.Open(t.Context(), &ring.Config{Interface: "above"})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		defer links[side].Close()
		if !links[side].StartLong() || !links[side].ReceiveLong(true) {
			t.Fatal("no long frames")
		}
	}
	payload := bytes.Repeat([]byte("above the veth "), 4000)
	sendOne(t, links[0], links[1], payload)
	if got := recvOne(t, links[1]); !bytes.Equal(got, payload) {
		t.Errorf("%d bytes arrived, not those that were sent", len(got))
	}
}

// packetSocket returns a socket on side 0 that sends frames of a type, and the address to send to.
func packetSocket(t *testing.T, p *vethtest.Pair, typ uint16) (fd int, to *unix.SockaddrLinklayer) {
	t.Helper()
	be := binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, typ))
	err := p.In(0, func() (err error) {
		link, err := netlink.LinkByName(vethtest.Name)
		if err != nil {
			return err
		}
		to = &unix.SockaddrLinklayer{Protocol: be, Ifindex: link.Attrs().Index}
		fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return fd, to
}

// capture is a packet socket that gets all that passes an interface.
type capture struct {
	where string
	fd    int
}

// captures listens on both sides and at both ports of a bridge.
func captures(t *testing.T, p *vethtest.Pair) (all []capture) {
	t.Helper()
	add := func(where, name string) func() error {
		return func() error {
			link, err := netlink.LinkByName(name)
			if err != nil {
				return err
			}
			fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
			if err != nil {
				return err
			}
			t.Cleanup(func() { unix.Close(fd) })
			all = append(all, capture{where, fd})
			every := binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, unix.ETH_P_ALL))
			return unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: every, Ifindex: link.Attrs().Index})
		}
	}
	ports := vethtest.Ports()
	err := errors.Join(p.In(0, add("sender", vethtest.Name)), p.InBridge(add("bridge, sender's port", ports[0])),
		p.InBridge(add("bridge, receiver's port", ports[1])), p.In(1, add("receiver", vethtest.Name)))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// answers returns what a stack has said to frames that are not its own: errors of ICMPv6, and TCP that resets; and how many long
// frames have passed.
func (c *capture) answers(t *testing.T) (said []string, long int) {
	t.Helper()
	b := make([]byte, 1<<17)
	for {
		n, err := unix.Read(c.fd, b)
		if err != nil {
			return said, long
		}
		f := b[:n]
		if n < 54 || f[12] != 0x86 || f[13] != 0xdd {
			continue
		}
		switch next := f[20]; {
		case next == unix.IPPROTO_ICMPV6 && f[54] < 128: // an error
			said = append(said, fmt.Sprintf("ICMPv6 type %d code %d", f[54], f[55]))
		case next == unix.IPPROTO_TCP && f[67]&4 != 0:
			said = append(said, "TCP reset")
		case next == unix.IPPROTO_TCP && f[67] == 0x10 && f[22] == 0xff:
			long++
		}
	}
}

// sysctl sets a parameter of the calling thread's network namespace.
func sysctl(name, value string) error {
	return os.WriteFile("/proc/sys/net/"+name, []byte(value), 0o644)
}

// becomeRouter makes a side a router that has a way to every address, by the other side.
func becomeRouter(p *vethtest.Pair, side int) error {
	return p.In(side, func() error {
		link, err := netlink.LinkByName(vethtest.Name)
		if err != nil {
			return err
		}
		addr, err := netlink.ParseAddr("fd00::1/64")
		if err != nil {
			return err
		}
		addr.Flags = unix.IFA_F_NODAD
		gateway, index := net.ParseIP("fd00::2"), link.Attrs().Index
		return errors.Join(sysctl("ipv6/conf/all/forwarding", "1"), sysctl("ipv6/icmp/ratelimit", "0"), netlink.AddrAdd(link, addr),
			netlink.NeighSet(&netlink.Neigh{LinkIndex: index, Family: unix.AF_INET6, State: netlink.NUD_PERMANENT, IP: gateway, HardwareAddr: vethtest.MACs[1-side].HardwareAddr()}),
			netlink.RouteAdd(&netlink.Route{LinkIndex: index, Family: unix.AF_INET6, Gw: gateway, Dst: &net.IPNet{IP: net.IPv6zero, Mask: net.CIDRMask(0, 128)}}))
	})
}

// TestLongSilent: no stack answers to long frames, nor to segments of them, on hosts, on routers, and
// where IPv6 is disabled; and they arrive there all the same. A router does answer to a frame that differs by
// its addresses alone, which shows that the test would see it.
func TestLongSilent(t *testing.T) {
	for name, prepare := range map[string]func(p *vethtest.Pair) error{
		"host":   func(*vethtest.Pair) error { return nil },
		"router": func(p *vethtest.Pair) error { return becomeRouter(p, 1) },
		"disabled": func(p *vethtest.Pair) error {
			disable := func() error { return sysctl("ipv6/conf/all/disable_ipv6", "1") }
			return errors.Join(p.In(0, disable), p.In(1, disable), p.InBridge(disable))
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := vethtest.NewBridged(t, 1500, 1500)
			a, b := longPair(t, p)
			if err := prepare(p); err != nil {
				t.Fatal(err)
			}
			wires := captures(t, p)
			payload := bytes.Repeat([]byte{1}, 30_000)
			sendOne(t, a, b, payload)
			if got := recvOne(t, b); !bytes.Equal(got, payload) {
				t.Fatalf("%d bytes arrived, not those that were sent", len(got))
			}
			if err := p.SetOffloads(0, false); err != nil {
				t.Fatal(err)
			}
			sendOne(t, a, b, payload)
			sendOne(t, a, b, []byte("end"))
			recvOne(t, b)
			for _, w := range wires {
				if said, long := w.answers(t); len(said) > 0 || long < 2 {
					t.Errorf("%s: %d long frames and segments, answers %q", w.where, long, said)
				}
			}
			if name != "router" {
				return
			}
			plain := linktest.NewFrame(a.Info(), b.Info(), b.Info().Ports.Lo, make([]byte, 1000))
			long := make([]byte, ethertype.EthernetSize+framing.LongHeader)
			framing.PutLong(long, plain, len(plain))
			long = append(long, plain[ethertype.EthernetSize:]...)
			for _, at := range []int{22, 38} {
				long[at], long[at+1] = 0xfd, 0x88
			}
			fd, to := packetSocket(t, p, unix.ETH_P_IPV6)
			if err := unix.Sendto(fd, long, 0, to); err != nil {
				t.Fatal(err)
			}
			if said, _ := wires[len(wires)-1].answers(t); len(said) != 1 {
				t.Errorf("to a frame with unicast addresses the router says %q", said)
			}
		})
	}
}

// TestLongReceive: a link receives long frames while it is told to, also when that changes often, and while frames of it have not been
// taken.
func TestLongReceive(t *testing.T) {
	p := vethtest.New(t, 1500)
	a, b := open(t, p, 0, ring.Config{Long: ring.On}), open(t, p, 1, ring.Config{Long: ring.On})
	payload := bytes.Repeat([]byte("payload."), 5000)
	if b.ReceiveLong(true) {
		t.Error("a link receives long frames before StartLong")
	}
	if !a.StartLong() || !b.StartLong() {
		t.Fatal("no long frames")
	}
	sendOne(t, a, b, payload) // which nobody receives
	for round := range 5 {
		receives(t, b)
		if !b.ReceiveLong(true) {
			t.Fatal("no long frames")
		}
		for range 2 {
			sendOne(t, a, b, payload)
			if got := recvOne(t, b); !bytes.Equal(got, payload) {
				t.Fatalf("round %d: %d bytes arrived, not those that were sent", round, len(got))
			}
		}
		sendOne(t, a, b, payload)
		if b.ReceiveLong(false) {
			t.Fatal("it still receives long frames")
		}
		if got := recvOne(t, b); !bytes.Equal(got, payload) {
			t.Fatalf("round %d: the frame that had arrived is lost", round)
		}
	}
	b.Close()
	if b.ReceiveLong(true) {
		t.Error("a closed link receives long frames")
	}
}

// receives has a link receive long frames, as soon as the kernel allows.
func receives(t *testing.T, b *ring.Link) {
	t.Helper()
	for end := b.Now() + int64(10*time.Second); !b.ReceiveLong(true); runtime.Gosched() {
		if b.Now() > end {
			t.Fatal("no long frames")
		}
	}
}

// boundTo reports whether a side's network namespace has a packet socket for an EtherType, as the kernel writes it.
func boundTo(t *testing.T, p *vethtest.Pair, side int, typ string) (found bool) {
	t.Helper()
	err := p.In(side, func() error {
		text, err := os.ReadFile("/proc/thread-self/net/packet")
		for line := range strings.Lines(string(text)) {
			f := strings.Fields(line)
			found = found || len(f) > 3 && f[3] == typ
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestLongReceiveEnds: the kernel passes a link no IPv6 packets soon after it has been told not to receive long frames, and those that
// are sent then do not arrive. Told to again, it receives them, also if it is told often what it is not yet done with.
func TestLongReceiveEnds(t *testing.T) {
	p := vethtest.New(t, 1500)
	a, b := longPair(t, p)
	long := bytes.Repeat([]byte("payload."), 5000)
	for round := range 3 {
		for range 10 * round {
			b.ReceiveLong(false)
			b.ReceiveLong(true)
		}
		b.ReceiveLong(false)
		for end := b.Now() + int64(5*time.Second); boundTo(t, p, 1, "86dd"); runtime.Gosched() {
			if b.Now() > end {
				t.Fatalf("round %d: the socket is still bound to IPv6", round)
			}
		}
		if b.ReceiveLong(false) {
			t.Fatalf("round %d: it says that it receives long frames", round)
		}
		short := bytes.Repeat([]byte{byte(round)}, 100)
		sendOne(t, a, b, long)
		sendOne(t, a, b, short)
		if got := recvOne(t, b); !bytes.Equal(got, short) {
			t.Fatalf("round %d: %d bytes arrive, not the short frame", round, len(got))
		}
		receives(t, b)
		sendOne(t, a, b, long)
		if got := recvOne(t, b); !bytes.Equal(got, long) || !boundTo(t, p, 1, "86dd") {
			t.Fatalf("round %d: %d bytes arrive, not the long frame", round, len(got))
		}
	}
}
