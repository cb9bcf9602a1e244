package pcap_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/pcap"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// TestTsharkFabric: a frame of the fabric passes a link of its EtherType, wrapped, and
// tshark tells route, type and what is left of the packet.
func TestTsharkFabric(t *testing.T) {
	name := filepath.Join(t.TempDir(), "fabric.pcapng")
	file, err := pcap.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	w := sim.New(sim.Options{})
	a := file.Wrap(w.StationWith(sim.StationOptions{EtherType: ethertype.Fabric}))
	b := w.StationWith(sim.StationOptions{EtherType: ethertype.Fabric})
	packet := []byte{framing.PutTurn(1), framing.PutTurn(-2), 0, 3, 'h', 'i'}
	packet = append(packet, framing.UpdateCRC8(0, packet))
	h := framing.FabricHeader{Dst: b.MAC(), Src: a.Info().MAC, Type: ethertype.Fabric, Kind: framing.FabricPacket,
		DstPort: 7, SrcPort: 8, Packet: 5, Length: uint32(len(packet)), Size: uint16(len(packet))}
	head := make([]byte, ethertype.HeaderSize)
	h.Put(head)
	if n, err := a.Send([]transport.Frame{{Head: head, Body: [][]byte{packet}}}); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if err := b.Wait(w.Now() + int64(time.Second)); err != nil {
		t.Fatal(err)
	}
	views := make([][]byte, 1)
	if n, err := b.Recv(views); n != 1 || err != nil || !slices.Equal(views[0], append(head, packet...)) {
		t.Fatalf("received %d frames, %v: % x", n, err, views[0])
	}
	if err := errors.Join(a.Close(), file.Close()); err != nil {
		t.Fatal(err)
	}
	lines := tshark(t, name, "bobnet_fabric.kind", "bobnet_fabric.packet", "bobnet_fabric.turn", "bobnet_fabric.type", "bobnet_fabric.part")
	if want := fmt.Sprintf("128\t5\t1,-2\t3\t%x", packet[4:]); len(lines) != 1 || lines[0] != want {
		t.Errorf("tshark shows %q, want %q", lines, want)
	}
}
