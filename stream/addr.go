package stream

import (
	"fmt"
	"net"
	"strings"

	"github.com/bobnet-go/bobnet/ethertype"
)

// Network is what Addr.Network returns, and the scheme of addresses by name.
const Network = "bobnet"

const scheme = Network + "://"

// Addr is the address of one end of a stream, or of a listener: a name of the segment's
// directory, or a station and a port. It is a net.Addr.
type Addr struct {
	Name string         // of a listener that has one
	Addr ethertype.Addr // zero as long as only the name is known
}

// Network returns "bobnet".
func (a Addr) Network() string { return Network }

// String returns the address as Dial takes it: "bobnet://NAME" or "MAC:PORT".
func (a Addr) String() string {
	if a.Name != "" {
		return scheme + a.Name
	}
	return fmt.Sprintf("%v:%d", a.Addr.MAC, a.Addr.Port)
}

// ParseAddr reads "bobnet://NAME", "MAC:PORT" or "MAC/PORT". An address of another form is
// a name, with a port of its own or without, as programs make it of a URL: "NAME:80"
// and "NAME" are the name. The error is a *net.AddrError.
func ParseAddr(s string) (Addr, error) {
	if name, ok := strings.CutPrefix(s, scheme); ok {
		return nameAddr(s, strings.TrimSuffix(name, "/"))
	}
	text := s
	if i := strings.LastIndexByte(s, ':'); i >= 0 && strings.Count(s, ":") == 6 {
		text = s[:i] + "/" + s[i+1:]
	}
	if a, err := ethertype.ParseAddr(text); err == nil {
		return Addr{Addr: a}, nil
	}
	name, _, _ := strings.Cut(s, ":")
	if strings.Count(s, ":") > 1 || strings.Contains(s, "/") {
		name = ""
	}
	return nameAddr(s, name)
}

func nameAddr(s, name string) (Addr, error) {
	if name == "" || len(name) > maxName {
		return Addr{}, &net.AddrError{Err: fmt.Sprintf("want bobnet://NAME, with a name of 1..%d bytes, or MAC:PORT", maxName), Addr: s}
	}
	return Addr{Name: name}, nil
}
