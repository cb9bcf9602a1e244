package stream

import (
	"fmt"
	"net"
	"strings"

	"github.com/bobnet-go/bobnet/ethertype"
)

// Network is the result of Addr.Network, and the scheme of addresses by name.
const Network = "bobnet"

const scheme = Network + "://"

// Addr is the address of one end of a stream or of a listener: a name in the segment's directory,
// or a station and a port. It is a net.Addr.
type Addr struct {
	Name string         // name of the listener, or empty
	Addr ethertype.Addr // zero while only the name is known
}

// Network returns "bobnet".
func (a Addr) Network() string { return Network }

// String returns the address in the form that Dial accepts: "bobnet://NAME" or "MAC:PORT". The MAC
// has hyphens, as in "02-00-00-00-00-01:1025", because net.SplitHostPort and net/url treat the
// first colon as the start of the port.
func (a Addr) String() string {
	if a.Name != "" {
		return scheme + a.Name
	}
	return fmt.Sprintf("%s:%d", strings.ReplaceAll(a.Addr.MAC.String(), ":", "-"), a.Addr.Port)
}

// ParseAddr parses "bobnet://NAME", "MAC:PORT" or "MAC/PORT". The MAC may have hyphens or colons,
// and may stand in brackets, as net.JoinHostPort writes it with colons. An address of another form
// is a name, optionally with a port that is ignored, as in a URL: "NAME:80" and "NAME" both mean
// the name. The error is a *net.AddrError.
func ParseAddr(s string) (Addr, error) {
	if name, ok := strings.CutPrefix(s, scheme); ok {
		return nameAddr(s, strings.TrimSuffix(name, "/"))
	}
	if i := strings.LastIndexAny(s, ":/"); i >= 0 {
		station := s[:i]
		if inner, ok := strings.CutPrefix(station, "["); ok {
			station = strings.TrimSuffix(inner, "]")
		}
		if _, err := ethertype.ParseMAC(station); err == nil {
			a, err := ethertype.ParseAddr(station + "/" + s[i+1:])
			if err != nil {
				return Addr{}, &net.AddrError{Err: "want a port from 0 to 65535 after the MAC", Addr: s}
			}
			return Addr{Addr: a}, nil
		}
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
