package udp

import (
	"net/netip"

	"github.com/bobnet-go/bobnet/ethertype"
)

// The first bytes of an IPv4 station's MAC: locally administered, and "u".
const (
	macLocal = 0x02
	macIPv4  = 0x75
)

// macOf returns the MAC of the station with the given IP address. IPv4-mapped IPv6 addresses count
// as IPv4, and zones are ignored.
func macOf(ip netip.Addr) ethertype.MAC {
	if ip = ip.Unmap(); ip.Is4() {
		a := ip.As4()
		return ethertype.MAC{macLocal, macIPv4, a[0], a[1], a[2], a[3]}
	}
	// FNV-1a with a final mix. It separates addresses that differ in one bit, and costs less than a
	// look-up in a table.
	h := uint64(0xcbf29ce484222325)
	for _, v := range ip.As16() {
		h = (h ^ uint64(v)) * 0x100000001b3
	}
	h ^= h >> 32
	first := byte(h>>40)&^3 | macLocal // locally administered, not a group
	return ethertype.MAC{first, byte(h >> 32), byte(h >> 24), byte(h >> 16), byte(h >> 8), byte(h)}
}

// ipOf returns the address of the IPv4 station with the given MAC. ok is false if the MAC is not
// one of an IPv4 station.
func ipOf(mac ethertype.MAC) (ip netip.Addr, ok bool) {
	if mac[0] != macLocal || mac[1] != macIPv4 {
		return netip.Addr{}, false
	}
	return netip.AddrFrom4([4]byte(mac[2:])), true
}

// learnedMax is the maximum number of IPv6 stations that are remembered in addition to
// Config.Peers.
const learnedMax = 4096

// stations maps MAC addresses to IP addresses. The caller must hold the link's lock for Send and
// Recv.
type stations struct {
	six     bool
	peers   []netip.Addr
	fixed   map[ethertype.MAC]netip.Addr // peers and the station itself
	learned map[ethertype.MAC]netip.Addr
}

func newStations(self netip.Addr, peers []netip.Addr) *stations {
	s := &stations{six: self.Is6(), learned: map[ethertype.MAC]netip.Addr{}, fixed: map[ethertype.MAC]netip.Addr{macOf(self): self}}
	for _, ip := range peers {
		if ip = ip.Unmap(); ip.WithZone("") != self {
			s.peers = append(s.peers, ip)
			s.fixed[macOf(ip)] = ip.WithZone("")
		}
	}
	return s
}

// find returns the IP address of the station with the given MAC.
func (s *stations) find(mac ethertype.MAC) (ip netip.Addr, ok bool) {
	if !s.six {
		return ipOf(mac)
	}
	if ip, ok = s.fixed[mac]; !ok {
		ip, ok = s.learned[mac]
	}
	return ip, ok
}

// learn records that mac, which is derived from ip, is at ip. It reports whether to accept frames
// from there. If two addresses have the same MAC, by chance or on purpose, the first one keeps it.
func (s *stations) learn(mac ethertype.MAC, ip netip.Addr) bool {
	if !s.six {
		return true
	}
	if known, ok := s.find(mac); ok {
		return known == ip
	}
	if len(s.learned) >= learnedMax {
		for victim := range s.learned { // a random one
			delete(s.learned, victim)
			break
		}
	}
	s.learned[mac] = ip
	return true
}
