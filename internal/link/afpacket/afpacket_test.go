package afpacket

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/internal/link/iface"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/mdlayher/ethernet"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// filterVM runs the filter without its look at the packet's type, which only
// the kernel can do.
func filterVM(t *testing.T, typ ethernet.EtherType, ports transport.PortRange, which Which) *bpf.VM {
	t.Helper()
	raw, err := Filter(typ, ports, which)
	if err != nil {
		t.Fatal(err)
	}
	prog, ok := bpf.Disassemble(raw)
	if !ok {
		t.Fatal("the filter cannot be disassembled")
	}
	if prog[0] != (bpf.LoadExtension{Num: bpf.ExtType}) {
		t.Fatalf("the filter begins with %v", prog[0])
	}
	vm, err := bpf.NewVM(prog[3:])
	if err != nil {
		t.Fatal(err)
	}
	return vm
}

// TestFilter: the filter takes the frames of its EtherType, version and ports, whether that
// is Bobnet's own or the fabric's.
func TestFilter(t *testing.T) {
	for _, typ := range []ethernet.EtherType{ethertype.Default, ethertype.Fabric} {
		t.Run(fmt.Sprintf("%#04x", uint16(typ)), func(t *testing.T) { testFilter(t, typ) })
	}
}

func testFilter(t *testing.T, typ ethernet.EtherType) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, r := range []transport.PortRange{{Lo: 1, Hi: 1}, {Lo: 1024, Hi: 2047}, {Lo: 65535, Hi: 65535}, transport.AllPorts} {
		vm := filterVM(t, typ, r, AllFrames)
		ports := []uint16{0, 1, r.Lo - 1, r.Lo, r.Lo + 1, r.Hi - 1, r.Hi, r.Hi + 1, 65535}
		for range 200 {
			ports = append(ports, uint16(rng.Uint32()))
		}
		for _, port := range ports {
			f := frameTo(typ, port)
			check := func(what string, want bool) {
				t.Helper()
				if n, err := vm.Run(f); err != nil || (n >= ethertype.MaxFrame) != want {
					t.Errorf("ports %v, %s to port %d: %d, %v", r, what, port, n, err)
				}
			}
			check("frame", port == ethertype.PortAll || r.Contains(port))
			f[framing.OffsetVersion]++
			check("other version", false)
			f[framing.OffsetVersion]--
			f[framing.OffsetType+1] ^= 0xb5 ^ 0xb6 // the other of the two
			check("other EtherType", false)
		}
		for n := range 20 { // too short to have a port
			if got, err := vm.Run(make([]byte, n)); got != 0 || err != nil {
				t.Errorf("frame of %d bytes: %d, %v", n, got, err)
			}
		}
	}
}

// frameTo returns the header of a frame to a port, of Bobnet or of the fabric.
func frameTo(typ ethernet.EtherType, port uint16) []byte {
	if typ == ethertype.Fabric {
		h := framing.FabricHeader{Type: typ, Kind: framing.FabricPacket, DstPort: port}
		f := make([]byte, ethertype.HeaderSize)
		h.Put(f)
		return f
	}
	h := ethertype.Header{Type: typ, Kind: ethertype.KindAck, DstPort: port}
	f := make([]byte, ethertype.HeaderSize)
	h.Put(f)
	return f
}

// TestFilterLong: WithLong takes long frames and their segments, AllFrames does not. Both judge all others alike.
func TestFilterLong(t *testing.T) {
	ports := transport.PortRange{Lo: 1024, Hi: 2047}
	all, long := filterVM(t, ethertype.Default, ports, AllFrames), filterVM(t, ethertype.Default, ports, WithLong)
	const header = ethertype.EthernetSize + framing.LongHeader
	for port := range uint16(4096) {
		h := ethertype.Header{Type: ethertype.Default, Kind: ethertype.KindAck, DstPort: port, SrcPort: 1024}
		plain := make([]byte, ethertype.HeaderSize)
		h.Put(plain)
		version := append([]byte(nil), plain...)
		version[framing.OffsetVersion]++
		outer := make([]byte, header)
		framing.PutLong(outer, plain, 4000)
		whole := append(outer, plain[ethertype.EthernetSize:]...)
		segment := append(append([]byte(nil), outer...), make([]byte, 100)...)
		segment[60] = 3 // of its sequence number
		udp := append([]byte(nil), whole...)
		udp[framing.LongProtocol] = 17
		stranger := append([]byte(nil), whole...)
		stranger[framing.LongDst]--
		fabric := append([]byte(nil), whole...)
		fabric[framing.LongDst+3]++
		ours := port == ethertype.PortAll || ports.Contains(port)
		for i, f := range [][]byte{plain, version, whole, segment, udp, stranger, fabric} {
			for vm, want := range map[*bpf.VM]bool{all: ours && i == 0, long: ours && (i == 0 || i == 2 || i == 3)} {
				if n, err := vm.Run(f); err != nil || (n > 0) != want {
					t.Fatalf("frame %d to port %d, long frames %v: %d, %v, want %v", i, port, vm == long, n, err, want)
				}
			}
		}
	}
	for n := range header { // too short to have a port, or to be one
		f := make([]byte, n)
		if n > ethertype.EthernetSize {
			f[12], f[13] = 0x86, 0xdd
		}
		if got, err := long.Run(f); got != 0 || err != nil {
			t.Errorf("frame of %d bytes: %d, %v", n, got, err)
		}
	}
}

// TestClaim needs no rights: abstract sockets are open to all. The interface
// index is one that no machine has.
func TestClaim(t *testing.T) {
	const index = 1 << 30
	claim := func(lo, hi uint16) (*Claim, error) {
		c, err := ClaimPorts(index, "eth9", ethertype.Default, transport.PortRange{Lo: lo, Hi: hi})
		if c != nil {
			t.Cleanup(c.Release)
		}
		return c, err
	}
	a, err := claim(0, 0)
	if err != nil || a.Ports != (transport.PortRange{Lo: 1024, Hi: 2047}) {
		t.Fatalf("first claim: %+v, %v", a, err)
	}
	if _, err := claim(1, 1023); err != nil {
		t.Errorf("block 0: %v", err)
	}
	for range 10 { // everybody who asks is told
		_, err = claim(900, 5000)
		if !errors.Is(err, unix.EADDRINUSE) || !strings.Contains(fmt.Sprint(err), "900..5000 on eth9 overlap ports 1..1023, which this process has") {
			t.Errorf("overlap: %v", err)
		}
	}
	// The refused claim holds nothing.
	if b, err := claim(2048, 4000); err != nil || b.Ports.Hi != 4000 {
		t.Errorf("after a refused claim: %+v, %v", b, err)
	}
	if c, err := claim(0, 0); err != nil || c.Ports.Lo != 4096 {
		t.Errorf("the next free block: %+v, %v", c, err)
	}
	a.Release()
	a.Release()
	if c, err := claim(0, 0); err != nil || c.Ports.Lo != 1024 {
		t.Errorf("a freed block: %+v, %v", c, err)
	}
}

func TestOpenErrors(t *testing.T) {
	s := &Station{Interface: iface.Interface{Name: "eth9"}}
	for errno, want := range map[unix.Errno]struct {
		is   error
		says string
	}{
		unix.EPERM:        {transport.ErrPermission, "sudo setcap cap_net_raw=ep "},
		unix.EACCES:       {transport.ErrPermission, "run as root"},
		unix.ENODEV:       {transport.ErrGone, "ip link show eth9"},
		unix.ENOMEM:       {unix.ENOMEM, "fewer slots"},
		unix.EAFNOSUPPORT: {unix.EAFNOSUPPORT, "modprobe af_packet"},
		unix.EBUSY:        {unix.EBUSY, "eth9"},
	} {
		err := s.OpenError("open", errno)
		if !errors.Is(err, want.is) || !errors.Is(err, errno) || !strings.Contains(err.Error(), want.says) {
			t.Errorf("%v: %v", errno, err)
		}
	}
	if err := s.OpenError("open", nil); err != nil {
		t.Error(err)
	}
	if err := s.CheckType(unix.ARPHRD_IEEE80211); !errors.Is(err, transport.ErrInterface) {
		t.Error(err)
	}
}
