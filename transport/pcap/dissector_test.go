package pcap_test

import (
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/transport/udp"
	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
)

const dissector = "../../docs/bobnet.lua"

var update = flag.Bool("update", false, "write the tables of "+dissector)

// kindTable and flagTable are the tables that the dissector has.
func kindTable() string {
	var b strings.Builder
	b.WriteString("local kinds = {\n")
	for k := ethertype.Kind(0); k.String() != fmt.Sprintf("kind-%d", uint8(k)); k++ {
		fmt.Fprintf(&b, "  [%d] = %q,\n", k, k)
	}
	return b.String() + "}\n"
}

func flagTable() string {
	var b strings.Builder
	b.WriteString("local flags = {\n")
	for f := ethertype.Flags(1); f != 0; f <<= 1 {
		if name := f.String(); !strings.HasPrefix(name, "0x") { // not reserved
			fmt.Fprintf(&b, "  { %#x, %q },\n", uint16(f), name)
		}
	}
	return b.String() + "}\n"
}

func fabricTable() string {
	var b strings.Builder
	b.WriteString("local fabric_kinds = {\n")
	for k := framing.FabricPacket; k.String() != fmt.Sprintf("kind-%d", uint8(k)); k++ {
		fmt.Fprintf(&b, "  [%d] = %q,\n", k, k)
	}
	return b.String() + "}\n"
}

func sealTable() string {
	var b strings.Builder
	b.WriteString("local seal_kinds = {\n")
	for k := framing.KindSealed; k.String() != fmt.Sprintf("kind-%d", uint8(k)); k++ {
		fmt.Fprintf(&b, "  [%d] = %q,\n", k, k)
	}
	return b.String() + "}\n"
}

// TestDissector compares the Lua dissector's tables with the program's. With
// -update it writes them.
func TestDissector(t *testing.T) {
	text, err := os.ReadFile(dissector)
	if err != nil {
		t.Fatal(err)
	}
	lua := string(text)
	for name, want := range map[string]string{"kinds": kindTable(), "flags": flagTable(), "fabric kinds": fabricTable(), "seal kinds": sealTable()} {
		begin, end := "-- begin "+name+"\n", "-- end "+name+"\n"
		_, rest, ok := strings.Cut(lua, begin)
		have, _, ok2 := strings.Cut(rest, end)
		switch {
		case !ok || !ok2:
			t.Fatalf("%s has no table %q", dissector, name)
		case *update:
			lua = strings.Replace(lua, begin+have+end, begin+want+end, 1)
		case have != want:
			t.Errorf("%s: %s are\n%swant\n%srun: go test ./transport/pcap -run Dissector -update", dissector, name, have, want)
		}
	}
	if *update {
		if err := os.WriteFile(dissector, []byte(lua), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{
		fmt.Sprintf(`get("ethertype"):add(%#x,`, uint16(ethertype.Default)),
		fmt.Sprintf(`get("ethertype"):add(%#x,`, uint16(ethertype.Fabric)),
		fmt.Sprintf("base_port = %d ", udp.DefaultBasePort),
		fmt.Sprintf("header = %d\n", ethertype.BaseSize),
		fmt.Sprintf(`match("^%x:`, framing.LongPrefix(0)>>16),
		fmt.Sprintf(`["%x"] = bobnet`, uint16(ethertype.Default)),
		fmt.Sprintf(`["%x"] = fabric`, uint16(ethertype.Fabric)),
	} {
		if !strings.Contains(lua, want) {
			t.Errorf("%s lacks %q", dissector, want)
		}
	}
	checkLayout(t, lua)
	checkFabricLayout(t, lua)
}

// tshark runs tshark with the dissector over a file and returns the fields of
// each packet.
func tshark(t *testing.T, file string, fields ...string) (lines []string) {
	t.Helper()
	prog, err := exec.LookPath("tshark")
	if err != nil {
		need.Skip(t, "tshark: apt-get install tshark")
	}
	args := []string{"-X", "lua_script:" + dissector, "-r", file, "-T", "fields"}
	for _, field := range fields {
		args = append(args, "-e", field)
	}
	var stderr strings.Builder
	cmd := exec.Command(prog, args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("tshark: %v\n%s", err, &stderr)
	}
	return strings.Split(strings.TrimRight(string(out), "\n"), "\n")
}

// TestTshark has tshark read a file.
func TestTshark(t *testing.T) {
	name := filepath.Join(t.TempDir(), "frames.pcapng")
	file, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	frames, _ := exchange(t, file)
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	lines := tshark(t, name, "bobnet.kind", "bobnet.size")
	if len(lines) != 2*len(frames) {
		t.Fatalf("tshark shows %d packets, want %d: %q", len(lines), 2*len(frames), lines)
	}
	for i, line := range lines {
		if want := fmt.Sprintf("%d\t%d", ethertype.KindEcho, i/2); line != want {
			t.Errorf("packet %d: tshark shows %q, want %q", i, line, want)
		}
	}
}

// TestTsharkSack: what acknowledges shows what, questions their number, requests their token.
func TestTsharkSack(t *testing.T) {
	name := filepath.Join(t.TempDir(), "kinds.pcapng")
	file, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	w, err := pcapgo.NewNgWriter(file, layers.LinkTypeEthernet)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{}
	for kind, line := range map[ethertype.Kind]string{
		ethertype.KindAck: "0x0000000000000005\t\t", ethertype.KindQuery: "\t\t0x0000000000000005",
		ethertype.KindRetry: "\t0x0000000000000005\t", ethertype.KindEcho: "\t\t",
	} {
		h := ethertype.Header{Type: ethertype.Default, Kind: kind, Sack: 5}
		frame := make([]byte, ethertype.HeaderSize)
		h.Put(frame)
		if err := w.WritePacket(gopacket.CaptureInfo{CaptureLength: len(frame), Length: len(frame)}, frame); err != nil {
			t.Fatal(err)
		}
		want = append(want, line)
	}
	if err := errors.Join(w.Flush(), file.Close()); err != nil {
		t.Fatal(err)
	}
	for i, line := range tshark(t, name, "bobnet.sack", "bobnet.token", "bobnet.nonce", "bobnet.version") {
		if i >= len(want) || !strings.HasPrefix(line, want[i]+"\t") {
			t.Errorf("frame %d: %q, want %q", i, line, want)
		}
	}
}

// TestTsharkUDP has tshark take a packed frame, and one that follows it, out of a datagram.
func TestTsharkUDP(t *testing.T) {
	h := ethertype.Header{Type: ethertype.Default, Kind: ethertype.KindData, Flags: ethertype.FlagPacked, Count: 2, Size: 32}
	frame := make([]byte, ethertype.HeaderSize+32)
	h.Put(frame)
	ethertype.Record{Size: 5}.Put(frame[ethertype.HeaderSize:])
	ethertype.Record{Size: 1, HasImm: true, Immediate: 0xabcd}.Put(frame[ethertype.HeaderSize+16:])
	copy(frame[ethertype.HeaderSize+8:], "hello")
	copy(frame[ethertype.HeaderSize+24:], "!")
	framing.SetMore(frame)
	ack := ethertype.Header{Type: ethertype.Default, Kind: ethertype.KindAck}
	frame = append(frame, make([]byte, ethertype.HeaderSize)...)
	ack.Put(frame[len(frame)-ethertype.HeaderSize:])
	ip := layers.IPv4{Version: 4, TTL: 1, Protocol: layers.IPProtocolUDP, SrcIP: net.IPv4(10, 0, 0, 1), DstIP: net.IPv4(10, 0, 0, 2)}
	buf := gopacket.NewSerializeBuffer()
	err := gopacket.SerializeLayers(buf, gopacket.SerializeOptions{FixLengths: true},
		&layers.Ethernet{SrcMAC: make([]byte, 6), DstMAC: make([]byte, 6), EthernetType: layers.EthernetTypeIPv4},
		&ip, &layers.UDP{SrcPort: udp.DefaultBasePort + 1, DstPort: udp.DefaultBasePort + 1}, gopacket.Payload(frame))
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "datagram.pcapng")
	file, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	w, err := pcapgo.NewNgWriter(file, layers.LinkTypeEthernet)
	if err != nil {
		t.Fatal(err)
	}
	err = w.WritePacket(gopacket.CaptureInfo{CaptureLength: len(buf.Bytes()), Length: len(buf.Bytes())}, buf.Bytes())
	if err := errors.Join(err, w.Flush(), file.Close()); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("%d,%d\t2,0\t%x,%x\t0x0000abcd", ethertype.KindData, ethertype.KindAck, "hello", "!")
	if lines := tshark(t, name, "bobnet.kind", "bobnet.count", "bobnet.message", "bobnet.immediate"); len(lines) != 1 || lines[0] != want {
		t.Errorf("tshark shows %q, want %q", lines, want)
	}
}

// checkLayout lets the program encode a header in which each field has another
// value, and finds each where the dissector looks.
func checkLayout(t *testing.T, lua string) {
	h := ethertype.Header{Kind: 2, Flags: 3, DstPort: 4, SrcPort: 5, Tag: 6, Seq: 7, Ack: 8, Msg: 9, Sack: 10,
		Offset: 11, Length: 12, Size: 13, Count: 14}
	want := map[string]byte{"version": 1, "kind": 2, "flags": 3, "dstport": 4, "srcport": 5, "tag": 6, "seq": 7, "ack": 8,
		"msg": 9, "sack": 10, "offset": 11, "length": 12, "size": 13, "count": 14}
	b := make([]byte, ethertype.HeaderSize)
	h.Put(b)
	seen := 0
	for _, m := range regexp.MustCompile(`\{ f\.(\w+), (\d+), (\d+) \}`).FindAllStringSubmatch(lua, -1) {
		var at, size int
		fmt.Sscan(m[2]+" "+m[3], &at, &size)
		if value, ok := want[m[1]]; ok {
			seen++
			if got := b[ethertype.EthernetSize+at+size-1]; got != value {
				t.Errorf("%s: field %s has %d at %d", dissector, m[1], got, at)
			}
		}
	}
	if seen != len(want) {
		t.Errorf("%s lays out %d of %d fields", dissector, seen, len(want))
	}
}

// checkFabricLayout is checkLayout of the fabric's header.
func checkFabricLayout(t *testing.T, lua string) {
	h := framing.FabricHeader{Kind: framing.FabricPacket, DstPort: 4, SrcPort: 5, Tag: 6, Seq: 7, Credit: 8, Packet: 9,
		Offset: 10, Length: 11, Size: 12}
	want := map[string]byte{"version": 1, "kind": byte(h.Kind), "dstport": 4, "srcport": 5, "tag": 6, "seq": 7, "credit": 8,
		"packet": 9, "offset": 10, "length": 11, "size": 12}
	b := make([]byte, ethertype.HeaderSize)
	h.Put(b)
	seen := 0
	for _, m := range regexp.MustCompile(`\{ g\.(\w+), (\d+), (\d+) \}`).FindAllStringSubmatch(lua, -1) {
		var at, size int
		fmt.Sscan(m[2]+" "+m[3], &at, &size)
		if value, ok := want[m[1]]; ok {
			seen++
			if got := b[ethertype.EthernetSize+at+size-1]; got != value {
				t.Errorf("%s: field %s of the fabric has %d at %d", dissector, m[1], got, at)
			}
		}
	}
	if seen != len(want) {
		t.Errorf("%s lays out %d of %d fields of the fabric", dissector, seen, len(want))
	}
}
