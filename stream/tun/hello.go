package tun

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"
)

// hello is the greeting that both ends of a stream send first.
type hello struct {
	network string
	mtu     int
	addrs   []netip.Addr
}

const (
	helloMagic = "bobnet tun 1\n"
	// maxAddrs is the most addresses of a host.
	maxAddrs = 16
	// MaxNetwork is the longest name of a network, in bytes.
	MaxNetwork = 16
	// MinMTU is the smallest MTU, in bytes: the minimum of IPv6.
	MinMTU = 1280
	// MaxMTU is the largest MTU, in bytes.
	MaxMTU = 65_000
)

// errHello is wrapped by the error for an invalid greeting.
var errHello = errors.New("tun: invalid greeting")

// errNoHost is the error for an address that is this host's own, or cannot belong to a host.
var errNoHost = errors.New("tun: not an address of another host")

// append appends the greeting: magic, length of the rest, MTU, network and addresses, each with its
// length in front.
func (h *hello) append(b []byte) []byte {
	b = append(b, helloMagic...)
	at := len(b)
	b = append(b, 0, 0)
	b = binary.LittleEndian.AppendUint32(b, uint32(h.mtu))
	b = append(b, byte(len(h.network)))
	b = append(b, h.network...)
	b = append(b, byte(len(h.addrs)))
	for _, a := range h.addrs {
		b = append(b, byte(a.BitLen()/8))
		b = append(b, a.AsSlice()...)
	}
	binary.LittleEndian.PutUint16(b[at:], uint16(len(b)-at-2))
	return b
}

// maxHello is the largest length of the rest.
const maxHello = 4 + 1 + MaxNetwork + 1 + maxAddrs*17

// readHello reads a greeting, which may consist of arbitrary bytes.
func readHello(r io.Reader) (h hello, err error) {
	var head [len(helloMagic) + 2]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return h, err
	}
	n := int(binary.LittleEndian.Uint16(head[len(helloMagic):]))
	if string(head[:len(helloMagic)]) != helloMagic || n > maxHello {
		return h, errHello
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(r, body); err != nil {
		return h, err
	}
	return parseHello(body)
}

func parseHello(b []byte) (h hello, err error) {
	take := func(n int) []byte {
		if n > len(b) {
			err, b = errHello, nil
			return make([]byte, n)
		}
		p := b[:n]
		b = b[n:]
		return p
	}
	h.mtu = int(binary.LittleEndian.Uint32(take(4)))
	h.network = string(take(int(take(1)[0])))
	count := int(take(1)[0])
	if h.mtu < MinMTU || h.mtu > MaxMTU || len(h.network) > MaxNetwork || count > maxAddrs {
		return hello{}, errHello
	}
	for range count {
		a, ok := netip.AddrFromSlice(take(int(take(1)[0])))
		if !ok {
			return hello{}, errHello
		}
		h.addrs = append(h.addrs, a)
	}
	if err != nil || len(b) > 0 {
		return hello{}, errHello
	}
	return h, nil
}

// name returns the name of an address in the segment's directory.
func name(network string, a netip.Addr) string { return fmt.Sprintf("tun/%s/%v", network, a) }
