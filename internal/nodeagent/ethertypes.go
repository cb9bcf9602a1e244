package nodeagent

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/mdlayher/ethernet"
)

// reserved are the EtherTypes of the system's own traffic, by their names. Who got sockets
// for one of them could read and forge frames of programs that know nothing of Bobnet.
var reserved = map[ethernet.EtherType]string{
	0x0800: "IPv4", 0x0806: "ARP", 0x8035: "RARP", 0x86dd: "IPv6", 0x8100: "VLAN", 0x88a8: "VLAN",
	0x8808: "pause frames", 0x8809: "LACP", 0x8863: "PPPoE", 0x8864: "PPPoE", 0x888e: "802.1X", 0x88cc: "LLDP", 0x88e5: "MACsec", 0x88f7: "PTP",
}

// ParseEtherTypes reads EtherTypes with commas between them, each as Go writes numbers:
// 0x88b5. It refuses those that are lengths, and those of the system's own traffic.
func ParseEtherTypes(text string) (types []ethernet.EtherType, err error) {
	for word := range strings.SplitSeq(text, ",") {
		n, err := strconv.ParseUint(strings.TrimSpace(word), 0, 16)
		typ := ethernet.EtherType(n)
		switch {
		case err != nil || n < 0x600:
			return nil, fmt.Errorf("node agent: EtherType %q: want numbers from 0x0600 to 0xffff, such as 0x88b5,0x88b6", word)
		case reserved[typ] != "":
			return nil, fmt.Errorf("node agent: EtherType %#04x is that of %s: its sockets would let programs read and forge others' frames", n, reserved[typ])
		case !slices.Contains(types, typ):
			types = append(types, typ)
		}
	}
	return types, nil
}
