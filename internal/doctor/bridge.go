package doctor

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/google/nftables"
	"github.com/mdlayher/ethernet"
	"github.com/vishvananda/netlink"
)

// Bridges describes what the bridges of this host do with long frames, which are IPv6 packets with
// TCP. A bridge that calls ip6tables passes them to its rules, and to connection tracking, before it
// forwards them.
type Bridges struct {
	Calling []string // the bridges that call ip6tables
	Own     []string // of Calling, those whose own switch is on
	Every   bool     // the sysctl is on, which makes every bridge call ip6tables
	Drops   []Drop   // rules and policies there that drop long frames
	Err     error    // why the rules could not be read
}

// callIP6Tables is the sysctl that makes all bridges of a network namespace call ip6tables.
const callIP6Tables = "net.bridge.bridge-nf-call-ip6tables"

// ownCall is a bridge's own switch, which makes that bridge call ip6tables whatever the sysctl says.
const ownCall = "nf_call_ip6tables"

// collectBridges examines the bridges of this network namespace.
func collectBridges(files files, typ ethernet.EtherType) (b Bridges) {
	links, err := netlink.LinkList()
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return b
	}
	b.Every = files.read(path.Join("proc/sys", strings.ReplaceAll(callIP6Tables, ".", "/"))) == "1"
	for _, link := range links {
		name := link.Attrs().Name
		if link.Type() != "bridge" {
			continue
		}
		own := files.read(path.Join("sys/class/net", name, "bridge", ownCall)) == "1"
		if own {
			b.Own = append(b.Own, name)
		}
		if own || b.Every {
			b.Calling = append(b.Calling, name)
		}
	}
	if len(b.Calling) > 0 {
		b.Drops, b.Err = longDrops(typ)
	}
	return b
}

// forwarding lists the hooks of IPv6 that a bridge calls for the frames that it forwards.
var forwarding = []string{"prerouting", "forward", "postrouting"}

// longDrops returns the rules of nftables, which include those of ip6tables-nft, that drop long frames of an
// EtherType that a bridge forwards.
func longDrops(typ ethernet.EtherType) ([]Drop, error) {
	var chains []chain
	for _, family := range []nftables.TableFamily{nftables.TableFamilyIPv6, nftables.TableFamilyINet} {
		more, err := listChains(family)
		if err != nil {
			return nil, fmt.Errorf("doctor: read nftables rules: %w", err)
		}
		chains = append(chains, more...)
	}
	for i := range chains {
		if c := &chains[i]; !slices.Contains(forwarding, c.hook) {
			c.hook = "" // others may jump to it
		}
	}
	return findDrops(chains, sample{typ: ethernet.EtherTypeIPv6, long: framing.LongPrefix(typ)}), nil
}

// judgeBridges reports the bridges that pass long frames to ip6tables.
func judgeBridges(f *Facts) []Finding {
	b := &f.Bridges
	if len(b.Calling) == 0 {
		return nil
	}
	var asks, fixes []string
	if b.Every {
		asks = append(asks, callIP6Tables)
		fixes = append(fixes, fmt.Sprintf("sudo sysctl -w %s=0", callIP6Tables))
	}
	for _, name := range b.Own {
		asks = append(asks, fmt.Sprintf("%s of %s", ownCall, name))
		fixes = append(fixes, fmt.Sprintf("sudo ip link set dev %s type bridge %s 0", name, ownCall))
	}
	fixes = append(fixes, fmt.Sprintf("sudo ip6tables -I FORWARD -d %s -j ACCEPT   # instead, if other programs need ip6tables on bridges", framing.LongNet))
	found := Finding{Check: "bridges", Found: fmt.Sprintf("bridge %s passes long frames to ip6tables (%s)", strings.Join(b.Calling, ", "), strings.Join(asks, ", ")),
		Level: Note,
		Means: "they are IPv6 packets with TCP; if rules or connection tracking there drop them, long messages across the bridge use frames of the MTU",
		Fix:   strings.Join(fixes, "\n")}
	for _, d := range b.Drops {
		may := ""
		if d.Maybe {
			may = "may "
		}
		found.Found += fmt.Sprintf("; %s %sdrop them", d, may)
		if !d.Maybe {
			found.Means = "long messages across the bridge use frames of the MTU, because long frames are IPv6 packets with TCP"
		}
	}
	if b.Err != nil {
		found.Found += fmt.Sprintf("; its rules are unknown: %v", b.Err)
	}
	return []Finding{found}
}
