package vipl_test

import (
	"bytes"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/seam"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/vishvananda/netlink"
)

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
