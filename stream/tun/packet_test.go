package tun

import (
	"bytes"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/sys/unix"
)

// packet4 returns an IPv4 packet of a protocol.
func packet4(src, dst netip.Addr, protocol byte, body []byte) []byte {
	p := make([]byte, header4, header4+len(body))
	p[0], p[8], p[9] = 0x45, 64, protocol
	p[2], p[3] = byte((header4+len(body))>>8), byte(header4+len(body))
	copy(p[12:], src.AsSlice())
	copy(p[16:], dst.AsSlice())
	return append(p, body...)
}

func packet6(src, dst netip.Addr, next byte, body []byte) []byte {
	p := make([]byte, header6, header6+len(body))
	p[0], p[6], p[7] = 0x60, next, 64
	p[4], p[5] = byte(len(body)>>8), byte(len(body))
	copy(p[8:], src.AsSlice())
	copy(p[24:], dst.AsSlice())
	return append(p, body...)
}

var (
	one6 = netip.MustParseAddr("fd09::1")
	two6 = netip.MustParseAddr("fd09::2")
)

// FuzzParse: parse accepts any bytes without a panic. An accepted packet has the length in its
// header.
func FuzzParse(f *testing.F) {
	f.Add(packet4(addr(1), addr(2), 17, make([]byte, 8)))
	f.Add(packet6(one6, two6, 17, make([]byte, 8)))
	f.Add([]byte{0x45})
	f.Fuzz(func(t *testing.T, b []byte) {
		e, ok := parse(b, len(b))
		if ok && (len(b) < header4 || !e.src.IsValid() || e.src.Is4() != e.dst.Is4()) {
			t.Fatal(e)
		}
		for _, m := range [][]byte{unreachable(b), tooBig(b, 1300)} {
			if m == nil {
				continue
			}
			if back, ok := parse(m, len(m)); !ok || back.src != e.dst || back.dst != e.src {
				t.Fatalf("a message about % x is % x", b, m)
			}
		}
		if len(b) >= vnetSize {
			o := getOffload(b)
			if o.fits(len(b)) && o.flags&vnetNeedsChecksum != 0 && o.start+o.place+2 > len(b) {
				t.Fatal("the checksum lies beyond the packet")
			}
		}
	})
}

// FuzzHello: any bytes are parsed as a greeting without a panic. An accepted greeting is encoded to
// the same bytes.
func FuzzHello(f *testing.F) {
	h := hello{network: "default", mtu: MaxMTU, addrs: []netip.Addr{addr(1), one6}}
	f.Add(h.append(nil))
	f.Add([]byte(helloMagic + "\xff\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := readHello(bytes.NewReader(b))
		if err == nil && !bytes.HasPrefix(b, h.append(nil)) {
			t.Fatalf("% x is read as %+v", b, h)
		}
	})
}

// TestHello: an encoded greeting is parsed to the same value.
func TestHello(t *testing.T) {
	want := hello{network: "a", mtu: 9000, addrs: []netip.Addr{addr(1), one6}}
	got, err := readHello(bytes.NewReader(want.append(nil)))
	if err != nil || got.network != want.network || got.mtu != want.mtu || !slices.Equal(got.addrs, want.addrs) {
		t.Fatal(got, err)
	}
}

// TestUnreachable: an independent implementation of ICMP can parse the error message about a
// packet. The message contains the packet's beginning and has correct checksums. There is no
// message about error messages.
func TestUnreachable(t *testing.T) {
	p := packet4(addr(1), addr(9), 17, make([]byte, 100))
	for mtu, m := range map[int][]byte{0: unreachable(p), 1400: tooBig(p, 1400)} {
		h, err := ipv4.ParseHeader(m)
		if err != nil || checksum(m[:header4]) != 0 || checksum(m[header4:]) != 0 || h.Dst.String() != "10.9.0.1" {
			t.Fatal(h, err)
		}
		read, err := icmp.ParseMessage(1, m[header4:])
		if err != nil || read.Type != ipv4.ICMPTypeDestinationUnreachable || !bytes.Equal(read.Body.(*icmp.DstUnreach).Data[:len(p)], p) {
			t.Fatal(read, err)
		}
		if got := int(m[header4+6])<<8 | int(m[header4+7]); got != mtu {
			t.Errorf("MTU %d, want %d", got, mtu)
		}
	}
	if m := unreachable(packet6(one6, two6, 17, make([]byte, 9))); m == nil || m[6] != 58 {
		t.Errorf("IPv6: % x", m)
	}
	if m := unreachable(unreachable(p)); m != nil {
		t.Errorf("a message about a message: % x", m)
	}
	for _, at := range []int{6, 7} { // more fragments follow, offset 8
		p[at] = []byte{0x20, 1}[at-6]
		if m := unreachable(p); (m == nil) != (at == 7) {
			t.Errorf("a fragment % x: % x", p[6:8], m)
		}
	}
}

// TestLongest: the length of the longest segment is computed from the packet's headers, because the
// kernel's header may count more bytes as headers.
func TestLongest(t *testing.T) {
	tcp := packet4(addr(1), addr(2), 6, make([]byte, 20_000))
	tcp[header4+12] = 8 << 4
	udp := packet6(one6, two6, 17, make([]byte, 20_000))
	for _, c := range []struct {
		o      offload
		packet []byte
		want   int
	}{
		{offload{}, tcp, len(tcp)},
		{offload{flags: vnetNeedsChecksum, kind: vnetTCP4 | vnetByECN, head: 3000, size: 1448, start: header4}, tcp, 1500},
		{offload{flags: vnetNeedsChecksum, kind: vnetTCP4, head: 52, size: 30_000, start: header4}, tcp, len(tcp)},
		{offload{flags: vnetNeedsChecksum, kind: vnetUDP, head: 9000, size: 1200, start: header6}, udp, header6 + 8 + 1200},
	} {
		if got := c.o.longest(c.packet); got != c.want {
			t.Errorf("%+v: %d, want %d", c.o, got, c.want)
		}
	}
}

// TestAddressError: the error for an IPv6 address says that IPv6 is disabled or missing if this is
// the reason, and not otherwise.
func TestAddressError(t *testing.T) {
	six, four := netip.MustParsePrefix("fd09::1/64"), netip.MustParsePrefix("10.9.0.1/24")
	for _, c := range []struct {
		p    netip.Prefix
		err  error
		says bool
	}{{six, unix.EACCES, true}, {six, unix.EOPNOTSUPP, true}, {six, unix.EAFNOSUPPORT, true}, {six, unix.EEXIST, false}, {four, unix.EACCES, false}} {
		if err := addressError("ip0", c.p, c.err); !errors.Is(err, c.err) || strings.Contains(err.Error(), "disable_ipv6") != c.says {
			t.Errorf("%v, %v: %v", c.p, c.err, err)
		}
	}
}
