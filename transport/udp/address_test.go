package udp

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/bobnet-go/bobnet/ethertype"
)

func TestMAC(t *testing.T) {
	for text, want := range map[string]string{
		"10.0.0.7":        "02:75:0a:00:00:07",
		"255.255.255.255": "02:75:ff:ff:ff:ff",
		"::ffff:10.0.0.7": "02:75:0a:00:00:07",
	} {
		mac := macOf(netip.MustParseAddr(text))
		if ip, ok := ipOf(mac); mac.String() != want || !ok || ip != netip.MustParseAddr(text).Unmap() {
			t.Errorf("%s has the MAC %v, want %s, which is of %v", text, mac, want, ip)
		}
	}
	if _, ok := ipOf(ethertype.MAC{2, 0x74}); ok {
		t.Error("a MAC of no station has an IP address")
	}
}

// v6 returns address n of a network.
func v6(n uint64) netip.Addr {
	b := [16]byte{0xfd, 0xb0, 0xb}
	binary.BigEndian.PutUint64(b[8:], n)
	return netip.AddrFrom16(b)
}

// TestMAC6: addresses that follow each other have MACs that all differ, of
// single stations and locally administered.
func TestMAC6(t *testing.T) {
	seen := map[ethertype.MAC]netip.Addr{}
	for i := range uint64(100_000) {
		for _, n := range []uint64{i, i << 40} {
			ip := v6(n)
			mac := macOf(ip)
			if other, ok := seen[mac]; ok && other != ip {
				t.Fatalf("%v and %v have the MAC %v", ip, other, mac)
			}
			if seen[mac] = ip; mac[0]&3 != 2 {
				t.Fatalf("%v has the MAC %v", ip, mac)
			}
		}
	}
	if macOf(v6(1)) != macOf(v6(1).WithZone("eth0")) {
		t.Error("the zone counts")
	}
}

// TestStations: peers stay, the first at an address keeps it, and the number
// of those learned is bounded.
func TestStations(t *testing.T) {
	s := newStations(v6(1), []netip.Addr{v6(1), v6(2)})
	if len(s.peers) != 1 {
		t.Errorf("the peers are %v", s.peers)
	}
	taken := macOf(v6(7))
	if !s.learn(taken, v6(7)) || s.learn(taken, v6(8)) || !s.learn(taken, v6(7)) || s.learn(macOf(v6(2)), v6(9)) {
		t.Error("an address was given to another")
	}
	for i := range uint64(3 * learnedMax) {
		if ip := v6(100 + i); !s.learn(macOf(ip), ip) {
			t.Fatalf("%v was not learned", ip)
		}
	}
	if len(s.learned) != learnedMax {
		t.Errorf("%d stations are remembered", len(s.learned))
	}
	for _, ip := range []netip.Addr{v6(1), v6(2)} {
		if got, ok := s.find(macOf(ip)); !ok || got != ip {
			t.Errorf("%v was forgotten", ip)
		}
	}
}
