package tun_test

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/stream/tun"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/vipl"
	"golang.org/x/sys/unix"
)

// sysctl sets a sysctl variable in a side's namespace.
func sysctl(t *testing.T, p *vethtest.Pair, side int, name, value string) {
	t.Helper()
	err := p.In(side, func() error { return os.WriteFile("/proc/sys/net/"+name, []byte(value), 0o644) })
	switch {
	case errors.Is(err, unix.ENOENT):
		need.Skip(t, "/proc/sys/net/%s", name)
	case errors.Is(err, unix.EROFS), errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		need.Skip(t, "sysctls of a namespace: %v", err)
	case err != nil:
		t.Fatal(err)
	}
}

// ip runs ip(8) on a side.
func ip(t *testing.T, p *vethtest.Pair, side int, args string) {
	t.Helper()
	if out, err := run(t, p, side, "ip", strings.Fields(args)...); err != nil {
		t.Fatalf("ip %s: %v\n%s", args, err, out)
	}
}

// TestFragments: datagrams longer than the interface's MTU travel as fragments in both directions,
// over IPv4 and IPv6. The sending kernel refuses a datagram that must not be fragmented.
func TestFragments(t *testing.T) {
	p, hosts := pair(t, 1500, tun.Config{MTU: tun.MinMTU})
	for _, to := range []string{"10.9.0.2", "fd09::2"} {
		if out, err := run(t, p, 0, "ping", "-c", "3", "-w", "30", "-s", "60000", to); err != nil || !strings.Contains(out, " 0% packet loss") {
			t.Errorf("ping %s: %v\n%s", to, err, out)
		}
		if out, err := run(t, p, 0, "ping", "-c", "1", "-W", "20", "-s", "2000", "-M", "do", to); err == nil || !strings.Contains(out, "essage too long") {
			t.Errorf("ping %s with a packet that is too long: %v\n%s", to, err, out)
		}
	}
	for i, h := range hosts {
		// 2 x 3 datagrams of 60,008 bytes take at least 47 packets each.
		if s := h.Snapshot(); s.PacketsSent < 282 || s.PacketsReceived < 282 || s.Counts.TooBig+s.Counts.Malformed+s.Counts.Refused > 0 {
			t.Errorf("host %d: %+v", i, s)
		}
	}
}

// TestFragmentsForShorter: a neighbour with a smaller MTU gets fragments that fit its MTU, as soon
// as the kernel has learned the MTU. A sender that forbids fragmentation learns the maximum length.
func TestFragmentsForShorter(t *testing.T) {
	p := vethtest.New(t, 1500)
	hosts := [2]*host{start(t, p, 0, tun.Config{MTU: 9000}), start(t, p, 1, tun.Config{MTU: tun.MinMTU})}
	for _, c := range []struct{ to, says string }{{"10.9.0.2", "mtu = 1280"}, {"fd09::2", "mtu"}} {
		before := hosts[0].Snapshot().Counts.TooBig
		out, err := run(t, p, 0, "ping", "-c", "2", "-i", "0.02", "-W", "1", "-s", "5000", "-M", "do", c.to)
		if err == nil || !strings.Contains(out, c.says) || !strings.Contains(out, "1280") {
			t.Errorf("ping %s with packets that may not be cut: %v\n%s", c.to, err, out)
		}
		out, err = run(t, p, 0, "ping", "-c", "3", "-w", "30", "-s", "5000", c.to)
		if err != nil || !strings.Contains(out, " 0% packet loss") {
			t.Errorf("ping %s: %v\n%s", c.to, err, out)
		}
		if n := hosts[0].Snapshot().Counts.TooBig - before; n == 0 || n > 2 {
			t.Errorf("ping %s: %d packets were too long for the neighbour", c.to, n)
		}
	}
	for i, h := range hosts {
		if s := h.Snapshot(); s.Counts.Malformed+s.Counts.Refused+s.Counts.Misdirected > 0 {
			t.Errorf("host %d: %+v", i, s)
		}
	}
}

// TestRing: two networks over one segment join two hosts that forward packets. Their routes form a
// loop. A packet does not leave the first host, because no neighbour has its destination, and hosts
// accept only packets for themselves.
func TestRing(t *testing.T) {
	p := vethtest.New(t, 1500)
	var all []*host
	for side := range 2 {
		sysctl(t, p, side, "ipv4/ip_forward", "1")
		for n, network := range []string{"one", "two"} {
			all = append(all, start(t, p, side, tun.Config{Network: network, Device: network, Addrs: []netip.Prefix{netip.MustParsePrefix(fmt.Sprintf("10.%d.0.%d/24", 20+n, side+1))}}))
		}
	}
	ip(t, p, 0, "route add 10.77.0.0/16 via 10.20.0.2 dev one")
	ip(t, p, 1, "route add 10.77.0.0/16 via 10.21.0.1 dev two")
	ip(t, p, 0, "route add 10.20.0.2/32 dev two table 9") // host 1's address in one network, through the other network
	ip(t, p, 0, "rule add to 10.20.0.2 ipproto icmp lookup 9")
	for _, to := range []string{"10.77.0.1", "10.20.0.2"} {
		out, err := run(t, p, 0, "ping", "-c", "2", "-i", "0.02", "-W", "20", to)
		if err == nil || !strings.Contains(out, "Destination Host Unreachable") || strings.Contains(out, "Time to live exceeded") {
			t.Errorf("ping %s: %v\n%s", to, err, out)
		}
	}
	for i, h := range all {
		if s := h.Snapshot(); s.PacketsSent > 0 {
			t.Errorf("tun %d has sent %d packets: %+v", i, s.PacketsSent, s)
		} else if i < 2 && s.Counts.Unreachable == 0 {
			t.Errorf("no packet was routed to tun %d: %+v", i, s)
		}
	}
	err := p.In(0, func() error {
		h, err := tun.Open(t.Context(), &tun.Config{VIPL: vipl.Config{Interface: all[0].Device()}, Addrs: []netip.Prefix{netip.MustParsePrefix("10.30.0.1/24")}})
		if err == nil {
			h.Close()
		}
		return err
	})
	if !errors.Is(err, transport.ErrInterface) {
		t.Errorf("a tun over a tun: %v", err)
	}
}

// TestNoIPv6: a host without IPv6 can use IPv4, also with a host that has both. If it is given an
// IPv6 address, the error explains why this is impossible.
func TestNoIPv6(t *testing.T) {
	p := vethtest.New(t, 1500)
	sysctl(t, p, 0, "ipv6/conf/all/disable_ipv6", "1")
	sysctl(t, p, 0, "ipv6/conf/default/disable_ipv6", "1")
	err := p.In(0, func() error {
		h, err := tun.Open(t.Context(), &tun.Config{VIPL: vipl.Config{Interface: vethtest.Name}, Addrs: []netip.Prefix{netip.MustParsePrefix("10.9.0.1/24"), netip.MustParsePrefix("fd09::1/64")}})
		if err == nil {
			h.Close()
		}
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "disable_ipv6") {
		t.Errorf("an IPv6 address on a host without IPv6: %v", err)
	}
	start(t, p, 0, tun.Config{Addrs: []netip.Prefix{netip.MustParsePrefix("10.9.0.1/24")}})
	start(t, p, 1, tun.Config{})
	for side, to := range []string{"10.9.0.2", "10.9.0.1"} {
		if out, err := run(t, p, side, "ping", "-c", "2", "-i", "0.02", "-W", "20", to); err != nil {
			t.Errorf("ping %s: %v\n%s", to, err, out)
		}
	}
	if out, err := run(t, p, 1, "ping", "-c", "1", "-W", "20", "fd09::1"); err == nil || !strings.Contains(out, "unreachable") {
		t.Errorf("ping of an IPv6 address that the other host does not have: %v\n%s", err, out)
	}
}
