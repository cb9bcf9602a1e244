package ethertype

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
)

// MAC is a six-byte Ethernet hardware address. It is comparable.
type MAC [6]byte

// Broadcast is the address that every station on the segment receives.
var Broadcast = MAC{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

// String returns the usual form, for example "02:00:00:00:00:01".
func (m MAC) String() string { return string(m.append(make([]byte, 0, 17))) }

func (m MAC) append(b []byte) []byte {
	for i, v := range m {
		if i > 0 {
			b = append(b, ':')
		}
		b = hex.AppendEncode(b, []byte{v})
	}
	return b
}

// bits returns m as a number.
func (m *MAC) bits() uint64 {
	return uint64(binary.BigEndian.Uint32(m[:]))<<16 | uint64(binary.BigEndian.Uint16(m[4:]))
}

// IsGroup reports whether m is a multicast or the broadcast address.
func (m MAC) IsGroup() bool { return m[0]&1 != 0 }

// HardwareAddr returns m as the standard library's type.
func (m MAC) HardwareAddr() net.HardwareAddr { return net.HardwareAddr(m[:]) }

// errAddress is wrapped by every error that ParseMAC and ParseAddr return.
var errAddress = errors.New("not a Bobnet address")

// ParseMAC parses a six-byte address in any form that net.ParseMAC accepts.
func ParseMAC(s string) (MAC, error) {
	hw, err := net.ParseMAC(s)
	if err != nil || len(hw) != 6 {
		return MAC{}, fmt.Errorf("ethertype: %q: %w: want six bytes, as in 02:00:00:00:00:01", s, errAddress)
	}
	return MAC(hw), nil
}

// Addr is the address of an endpoint: an interface on the segment and a port on it (Bobnet paper,
// section 2.2). It is comparable, so it can be a map key, and it is a net.Addr. The zero Addr is
// invalid.
type Addr struct {
	MAC  MAC
	Port uint16
}

var _ net.Addr = Addr{}

// Network returns "bobnet".
func (Addr) Network() string { return "bobnet" }

// String returns the form that ParseAddr parses: "02:00:00:00:00:01/1024".
func (a Addr) String() string {
	b := a.MAC.append(make([]byte, 0, 23))
	return string(strconv.AppendUint(append(b, '/'), uint64(a.Port), 10))
}

// MarshalText returns the same text as String.
func (a Addr) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText parses text as ParseAddr does.
func (a *Addr) UnmarshalText(text []byte) (err error) {
	*a, err = ParseAddr(string(text))
	return err
}

// IsZero reports whether a is the zero Addr.
func (a Addr) IsZero() bool { return a == Addr{} }

// Compare compares addresses by their bytes, and returns -1, 0 or 1 like cmp.Compare.
func (a Addr) Compare(b Addr) int {
	return cmp.Or(bytes.Compare(a.MAC[:], b.MAC[:]), cmp.Compare(a.Port, b.Port))
}

// ParseAddr parses "MAC/port", and "MAC:port" in the form of package stream:
// "02-00-00-00-00-01:1024".
func ParseAddr(s string) (Addr, error) {
	i := strings.LastIndexAny(s, "/:")
	noPort := func() error {
		return fmt.Errorf("ethertype: %q: %w: want MAC/port, as in 02:00:00:00:00:01/1024", s, errAddress)
	}
	if _, err := ParseMAC(s); err == nil || i < 0 {
		return Addr{}, noPort()
	}
	host, port := s[:i], s[i+1:]
	mac, err := ParseMAC(host)
	switch {
	case err != nil && s[i] == ':': // the colon may be one of the MAC's
		return Addr{}, noPort()
	case err != nil:
		return Addr{}, err
	}
	p, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return Addr{}, fmt.Errorf("ethertype: %q: %w: port %q is not in 0..65535", s, errAddress, port)
	}
	return Addr{MAC: mac, Port: uint16(p)}, nil
}
