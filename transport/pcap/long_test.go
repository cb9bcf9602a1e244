package pcap_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/internal/link/linktest"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/pcap"
	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
)

// longSizes are the payloads of the frames of longFile, of which some are longer than
// the MTU, up to the longest.
var longSizes = []int{10, 1453, 4000, framing.LongMTU + ethertype.EthernetSize - ethertype.HeaderSize, 1452}

// longFile sends frames with longSizes over a veth, has the receiver fetch every other
// one and leave the others, and returns the file of both sides, and the frames.
func longFile(t *testing.T) (name string, frames [][]byte) {
	t.Helper()
	name = filepath.Join(t.TempDir(), "long.pcapng")
	file, err := pcap.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	l := overVeth(t, vethtest.New(t, 1500), file)
	a, b := l[0].(transport.LongLink), l[1].(transport.LongLink)
	if !a.StartLong() || !b.StartLong() || !a.ReceiveLong(true) || !b.ReceiveLong(true) {
		t.Fatal("no long frames on veth")
	}
	for i, size := range longSizes {
		f := linktest.NewFrame(a.Info(), b.Info(), b.Info().Ports.Lo, bytes.Repeat([]byte{byte(i), byte(size)}, size)[:size])
		if n, err := a.Send([]transport.Frame{{Head: f[:70], Body: [][]byte{f[70:]}}}); n != 1 || err != nil {
			t.Fatalf("Send = %d, %v", n, err)
		}
		frames = append(frames, f)
	}
	views := make([][]byte, 1)
	for i := 0; i < len(frames); {
		n, err := b.Recv(views)
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			if err := b.Wait(b.Now() + int64(10*time.Second)); err != nil || !b.Ready() {
				t.Fatalf("frame %d has not come (%v)", i, err)
			}
			continue
		}
		if rest := make([]byte, b.Rest()); i%2 == 1 && (!b.Fetch(len(views[0]), [][]byte{rest}) || !bytes.HasSuffix(frames[i], rest)) {
			t.Errorf("frame %d was not fetched", i)
		}
		i++
	}
	if err := errors.Join(a.Close(), b.Close(), l[2].Close(), file.Close()); err != nil {
		t.Fatal(err)
	}
	return name, frames
}

// TestLongReadBack: the file has long frames whole, once for each side, and whatever
// the receiver does with them.
func TestLongReadBack(t *testing.T) {
	name, frames := longFile(t)
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	packets := read(t, text)
	if len(packets) != 2*len(frames) {
		t.Fatalf("%d packets in the file, want %d", len(packets), 2*len(frames))
	}
	for i, p := range packets {
		if want := frames[i%len(frames)]; !bytes.Equal(p.data, want) {
			t.Errorf("packet %d has %d bytes and is not frame %d, which has %d", i, len(p.data), i%len(frames), len(want))
		}
	}
}

// TestLongTshark has tshark read long frames.
func TestLongTshark(t *testing.T) {
	name, frames := longFile(t)
	lines := tshark(t, name, "frame.len", "bobnet.kind", "bobnet.size")
	if len(lines) != 2*len(frames) {
		t.Fatalf("tshark shows %d packets, want %d: %q", len(lines), 2*len(frames), lines)
	}
	for i, line := range lines {
		i %= len(frames)
		if want := fmt.Sprintf("%d\t%d\t%d", len(frames[i]), ethertype.KindEcho, longSizes[i]); line != want {
			t.Errorf("frame %d: tshark shows %q, want %q", i, line, want)
		}
	}
}

// TestLongWire has tshark read long frames as they are on the wire, one of which comes again.
func TestLongWire(t *testing.T) {
	var file bytes.Buffer
	w, err := pcapgo.NewNgWriter(&file, layers.LinkTypeEthernet)
	if err != nil {
		t.Fatal(err)
	}
	a, b := transport.Info{MAC: vethtest.MACs[0], EtherType: ethertype.Default}, transport.Info{MAC: vethtest.MACs[1], EtherType: ethertype.Default}
	const header = ethertype.EthernetSize + framing.LongHeader
	for i, size := range []int{4000, 60_000, 60_000, 1392} {
		plain := linktest.NewFrame(a, b, 1024, make([]byte, size))
		f := make([]byte, header)
		framing.PutLong(f, plain, len(plain))
		f = append(f, plain[ethertype.EthernetSize:]...)
		info := gopacket.CaptureInfo{Timestamp: time.Unix(int64(i), 0), CaptureLength: len(f), Length: len(f)}
		if err := w.WritePacket(info, f); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "wire.pcapng")
	if err := os.WriteFile(name, file.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	for i, line := range tshark(t, name, "bobnet.kind", "bobnet.size") {
		if want := fmt.Sprintf("%d\t%d", ethertype.KindEcho, []int{4000, 60_000, 60_000, 1392}[i]); line != want {
			t.Errorf("frame %d: tshark shows %q, want %q", i, line, want)
		}
	}
}
