package vipl_test

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// The same changes as in address_test.go to interfaces over which udp runs with
// IPv6, from which Linux takes the addresses when they go down.

// six are the addresses of the two sides; another is what one side gets later.
var six = [2]string{"fd00:b0b::1/64", "fd00:b0b::2/64"}

const another = "fd00:b0b::3/64"

// addIPv6s gives the ends of a veth IPv6 addresses.
func addIPv6s(t *testing.T, p *vethtest.Pair) {
	t.Helper()
	for side, addr := range six {
		change6(t, p, side, addr, netlink.AddrAdd)
	}
}

// ipv6 makes a veth with IPv6 addresses and opens NICs on both ends.
func ipv6(t *testing.T, mtu int) (p *vethtest.Pair, nics [2]*vipl.NIC) {
	t.Helper()
	p = vethtest.New(t, mtu)
	addIPv6s(t, p)
	for side, addr := range six {
		nics[side] = open6(t, p, side, addr)
	}
	return p, nics
}

// open6 opens a NIC at an IPv6 address.
func open6(t *testing.T, p *vethtest.Pair, side int, addr string) (n *vipl.NIC) {
	t.Helper()
	err := p.In(side, func() (err error) {
		n, err = vipl.Open(t.Context(), &vipl.Config{Interface: ipOf(addr), Driver: "udp"})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close() })
	return n
}

func ipOf(prefix string) string { return netip.MustParsePrefix(prefix).Addr().String() }

// change6 changes an IPv6 address of the interface of a side.
func change6(t *testing.T, p *vethtest.Pair, side int, prefix string, change func(netlink.Link, *netlink.Addr) error) {
	t.Helper()
	err := p.In(side, func() error {
		link, err := netlink.LinkByName(vethtest.Name)
		if err != nil {
			return err
		}
		addr, err := netlink.ParseAddr(prefix)
		if err != nil {
			return err
		}
		addr.Flags = unix.IFA_F_NODAD // at once, without asking whether somebody has it
		return change(link, addr)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// lost wants both sides to end, the one on side with an error that says that its
// address is gone.
func (s *stream) lost(t *testing.T, side int) {
	t.Helper()
	within(t, "the end", func() error {
		for _, err := range []error{<-s.sent, <-s.received} {
			if !errors.Is(err, vipl.ErrDescriptor) {
				return fmt.Errorf("ended with %w", err)
			}
		}
		return nil
	})
	for i, v := range []*vipl.VI{s.a, s.b} {
		says := strings.Contains(fmt.Sprint(v.Err()), vethtest.Name+" has lost the address "+ipOf(six[side]))
		if !errors.Is(v.Err(), vipl.ErrUnreachable) || says != (i == side) {
			t.Errorf("side %d ended with: %v", i, v.Err())
		}
	}
}

// impatient gives peers as long as the tests of lost addresses wait.
var impatient = &vipl.Attributes{PeerTimeout: time.Second}

// on6 runs a test for a change at either side, and beside others: it waits most
// of the time.
func on6(t *testing.T, run func(t *testing.T, side int)) {
	t.Parallel()
	for side := range six {
		t.Run(fmt.Sprint("side", side), func(t *testing.T) {
			t.Parallel()
			run(t, side)
		})
	}
}

// back takes an address away and gives it back under traffic, which goes on.
func (s *stream) back(t *testing.T, p *vethtest.Pair, side int) {
	t.Helper()
	change6(t, p, side, six[side], netlink.AddrDel)
	change6(t, p, side, six[side], netlink.AddrAdd)
	s.flows(t)
}

// TestIPv6AddressLost takes either side's address away under traffic. It goes on
// when the address is there again; if that takes longer than peers wait, the
// connection ends with an error that says which address it is. Linux has another
// one with a way to the peer, and goes on sending from the one that is gone.
func TestIPv6AddressLost(t *testing.T) {
	on6(t, func(t *testing.T, side int) {
		p, nics := ipv6(t, 1500)
		change6(t, p, side, another, netlink.AddrAdd)
		startStream(t, nics, patient).back(t, p, side)
		s := startStream(t, nics, impatient)
		change6(t, p, side, six[side], netlink.AddrDel)
		s.lost(t, side)
	})
}

// TestIPv6AddressReplaced does so with a side's only address, and gives it
// another one. A NIC opened anew is there, and the peer's NIC finds it.
func TestIPv6AddressReplaced(t *testing.T) {
	on6(t, func(t *testing.T, side int) {
		p, nics := ipv6(t, 1500)
		startStream(t, nics, patient).back(t, p, side)
		s := startStream(t, nics, impatient)
		change6(t, p, side, six[side], netlink.AddrDel)
		change6(t, p, side, another, netlink.AddrAdd)
		s.lost(t, side)
		nics[side].Close()
		nics[side] = open6(t, p, side, another)
		startStream(t, nics, patient)
	})
}

// TestIPv6DownUp switches either interface off and on again under traffic, which
// goes on when the interface has its address again. If nobody gives it back, the
// connection ends with an error that says which one it is.
func TestIPv6DownUp(t *testing.T) {
	on6(t, func(t *testing.T, side int) {
		p, nics := ipv6(t, 1500)
		s := startStream(t, nics, patient)
		downUp := func() {
			if err := errors.Join(p.SetUp(side, false), p.SetUp(side, true)); err != nil {
				t.Fatal(err)
			}
		}
		downUp()
		change6(t, p, side, six[side], netlink.AddrAdd)
		s.flows(t)
		s = startStream(t, nics, impatient)
		downUp()
		s.lost(t, side)
	})
}
