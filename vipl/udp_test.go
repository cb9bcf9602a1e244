package vipl_test

import (
	"strings"
	"testing"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/fault"
	"github.com/bobnet-go/bobnet/transport/udp"
	"github.com/bobnet-go/bobnet/vipl"
)

// loopbackNICs opens two NICs at two addresses of the loopback, which takes no
// privilege.
func loopbackNICs(t *testing.T, wrap func(transport.Link) transport.Link) (nics [2]*vipl.NIC) {
	for side, ip := range []string{vethtest.Loopback(31), vethtest.Loopback(32)} {
		var err error
		if nics[side], err = vipl.Open(t.Context(), &vipl.Config{Interface: ip, Driver: "udp", Wrap: wrap}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { nics[side].Close() })
	}
	return nics
}

// TestUDP has NICs find and ask each other, and moves messages both ways.
func TestUDP(t *testing.T) {
	nics := loopbackNICs(t, nil)
	for _, to := range []ethertype.Addr{nics[1].Addr(), {MAC: nics[1].Addr().MAC, Port: ethertype.PortAll}} {
		if rtt, err := nics[0].Echo(bg, to, 100); err != nil || rtt <= 0 {
			t.Errorf("echo of %v: %v, %v", to, rtt, err)
		}
	}
	if err := nics[1].Advertise("somebody", nics[1].Addr()); err != nil {
		t.Fatal(err)
	}
	if addr, err := nics[0].Lookup(bg, "somebody"); err != nil || addr != nics[1].Addr() {
		t.Errorf("the name leads to %v (%v), want %v", addr, err, nics[1].Addr())
	}
	a, b := join(t, nics, nil)
	there, back := newFlow(t, a, b, 40, 1<<20, 1), newFlow(t, b, a, 40, 1<<20, 2)
	within(t, "the transfer", func() error { return all(there.send, there.receive, back.send, back.receive) })
}

// TestUDPFaults does so over links that lose, double, reorder and corrupt, with
// frames of a usual size.
func TestUDPFaults(t *testing.T) {
	var nics [2]*vipl.NIC
	for side, ip := range []string{vethtest.Loopback(31), vethtest.Loopback(32)} {
		link, err := udp.Open(t.Context(), &udp.Config{Interface: ip, MTU: 1458})
		if err != nil {
			t.Fatal(err)
		}
		faulty := fault.New(link, fault.Options{Seed: uint64(side) + 1, Drop: 0.02, Dup: 0.02, Reorder: 0.02, Corrupt: 0.02})
		if nics[side], err = vipl.Open(t.Context(), &vipl.Config{Link: faulty}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { nics[side].Close() })
	}
	a, b := join(t, nics, nil)
	there, back := newFlow(t, a, b, 20, 100_000, 1), newFlow(t, b, a, 20, 100_000, 2)
	within(t, "the transfer", func() error { return all(there.send, there.receive, back.send, back.receive) })
	if a.Snapshot().Retransmits == 0 {
		t.Error("nothing was sent again: there were no faults")
	}
}

// TestWrap: Open uses what Config.Wrap returns.
func TestWrap(t *testing.T) {
	nics := loopbackNICs(t, func(l transport.Link) transport.Link { return fault.New(l, fault.Options{}) })
	if driver := nics[0].Query().Driver; !strings.HasPrefix(driver, "fault+udp") {
		t.Errorf("the driver is %q", driver)
	}
}
