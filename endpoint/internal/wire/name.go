package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/bobnet-go/bobnet/ethertype"
)

// Name identifies an endpoint on the segment (en_t). It is comparable, and has
// a binary form of NameSize bytes, so that messages can carry it. It does not
// change when the endpoint moves to another bundle. The zero Name is invalid.
type Name struct {
	Addr ethertype.Addr // where the endpoint's node accepts connections
	ID   uint32         // number of the endpoint; its node uses it only once
	// Incarnation is the incarnation of the node. It distinguishes a program
	// from an earlier one at the same address.
	Incarnation uint32
}

// NameSize is the length of a Name's binary form in bytes.
const NameSize = 16

// ErrName is wrapped by the errors of parsing a Name.
var ErrName = errors.New("not an endpoint name")

// AppendBinary appends the binary form: MAC address, port, endpoint,
// incarnation, little-endian. The error is always nil.
func (n Name) AppendBinary(b []byte) ([]byte, error) {
	b = append(b, n.Addr.MAC[:]...)
	b = binary.LittleEndian.AppendUint16(b, n.Addr.Port)
	b = binary.LittleEndian.AppendUint32(b, n.ID)
	return binary.LittleEndian.AppendUint32(b, n.Incarnation), nil
}

// MarshalBinary returns what AppendBinary appends.
func (n Name) MarshalBinary() ([]byte, error) { return n.AppendBinary(make([]byte, 0, NameSize)) }

// UnmarshalBinary reads the binary form.
func (n *Name) UnmarshalBinary(b []byte) error {
	if len(b) != NameSize {
		return fmt.Errorf("endpoint: %w: its binary form has %d bytes, want %d", ErrName, len(b), NameSize)
	}
	n.Addr.MAC = ethertype.MAC(b[:6])
	n.Addr.Port = binary.LittleEndian.Uint16(b[6:])
	n.ID = binary.LittleEndian.Uint32(b[8:])
	n.Incarnation = binary.LittleEndian.Uint32(b[12:])
	return nil
}

// String returns the form that ParseName accepts, for example
// "02:00:00:00:00:01/1024#3.5f3759df".
func (n Name) String() string {
	return fmt.Sprintf("%v#%d.%08x", n.Addr, n.ID, n.Incarnation)
}

// MarshalText returns what String does.
func (n Name) MarshalText() ([]byte, error) { return []byte(n.String()), nil }

// UnmarshalText is ParseName.
func (n *Name) UnmarshalText(text []byte) (err error) {
	*n, err = ParseName(string(text))
	return err
}

// ParseName parses the output of String.
func ParseName(s string) (Name, error) {
	addr, rest, ok := strings.Cut(s, "#")
	id, incarnation, ok2 := strings.Cut(rest, ".")
	a, err := ethertype.ParseAddr(addr)
	i, err2 := strconv.ParseUint(id, 10, 32)
	in, err3 := strconv.ParseUint(incarnation, 16, 32)
	if err := errors.Join(err, err2, err3); err != nil || !ok || !ok2 {
		return Name{}, fmt.Errorf("endpoint: %q: %w: want one as 02:00:00:00:00:01/1024#3.5f3759df", s, ErrName)
	}
	return Name{Addr: a, ID: uint32(i), Incarnation: uint32(in)}, nil
}

// Tag is an endpoint's protection tag (tag_t). A message is accepted if it
// carries the endpoint's tag.
type Tag uint64

// The special values of an endpoint's tag.
const (
	TagNone Tag = 0 // AM_NONE: no message is accepted; the initial tag of every endpoint
	TagAll  Tag = 1 // AM_ALL: every message is accepted
)
