package nodeagent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bobnet-go/bobnet/internal/link/agent"
	"github.com/bobnet-go/bobnet/internal/link/iface"
	"github.com/mdlayher/ethernet"
	"github.com/vishvananda/netlink"
)

// lookEvery is the interval at which the agent checks that the nftables table exists.
const lookEvery = time.Second

// watchLinks guards new interfaces, and restores the table if it was removed, until stop is called or
// ctx is done.
func watchLinks(ctx context.Context, g *guard, log *slog.Logger) (stop func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	updates, err := subscribe(ctx)
	if err != nil {
		cancel()
		return nil, err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(lookEvery)
		defer tick.Stop()
		said := ""
		for ctx.Err() == nil {
			restored, err := g.restore()
			if restored {
				log.Warn("nftables rules were removed and have been restored", "table", tableName)
			}
			if err = errors.Join(err, g.hook()); err != nil && err.Error() != said {
				log.Warn("cannot guard an interface", "err", err)
			}
			said = fmt.Sprint(err)
			select {
			case <-ctx.Done():
			case <-tick.C:
			case _, open := <-updates:
				if open {
					continue
				}
				if updates, err = subscribe(ctx); err != nil { // changes were lost; hook checks all interfaces
					log.Error("new interfaces are not guarded, restart the agent", "err", err)
					return
				}
			}
		}
	}()
	return func() { cancel(); <-ended }, nil
}

// subscribe returns a channel of changes of interfaces. It is closed when changes are lost.
func subscribe(ctx context.Context) (<-chan netlink.LinkUpdate, error) {
	updates := make(chan netlink.LinkUpdate, 64)
	if err := netlink.LinkSubscribe(updates, ctx.Done()); err != nil {
		return nil, fmt.Errorf("node agent: watch interfaces: %w", err)
	}
	return updates, nil
}

// device returns a name of an interface that is short enough for agent.Guard.Device. If the name is
// too long, it adds an alternative name, which disappears with the interface.
func device(ifi iface.Interface) (string, error) {
	if len(ifi.Name) <= agent.MaxDevice {
		return ifi.Name, nil
	}
	link, err := netlink.LinkByIndex(ifi.Index)
	if err != nil {
		return "", fmt.Errorf("interface %s: %w", ifi.Name, err)
	}
	short := func(name string) bool { return len(name) <= agent.MaxDevice }
	if i := slices.IndexFunc(link.Attrs().AltNames, short); i >= 0 {
		return link.Attrs().AltNames[i], nil
	}
	name := fmt.Sprintf("bob%d", ifi.Index)
	if err := netlink.LinkAddAltName(link, name); err != nil {
		return "", fmt.Errorf("interface %s: its name is longer than %d bytes, and adding a shorter one failed: %w (try: ip link property add dev %s altname %s)",
			ifi.Name, agent.MaxDevice, err, ifi.Name, name)
	}
	return name, nil
}

// reserved contains EtherTypes of the system's own traffic with their names. With sockets for one of
// them, a program could read and forge frames of programs other than Bobnet's.
var reserved = map[ethernet.EtherType]string{
	0x0800: "IPv4", 0x0806: "ARP", 0x8035: "RARP", 0x86dd: "IPv6", 0x8100: "VLAN", 0x88a8: "VLAN",
	0x8808: "pause frames", 0x8809: "LACP", 0x8863: "PPPoE", 0x8864: "PPPoE", 0x888e: "802.1X", 0x88cc: "LLDP", 0x88e5: "MACsec", 0x88f7: "PTP",
}

// ParseEtherTypes parses comma-separated EtherTypes in Go's syntax for numbers, such as 0x88b5. It
// rejects lengths, and EtherTypes of the system's own traffic.
func ParseEtherTypes(text string) (types []ethernet.EtherType, err error) {
	for word := range strings.SplitSeq(text, ",") {
		n, err := strconv.ParseUint(strings.TrimSpace(word), 0, 16)
		typ := ethernet.EtherType(n)
		switch {
		case err != nil || n < 0x600:
			return nil, fmt.Errorf("node agent: EtherType %q: want numbers from 0x0600 to 0xffff, such as 0x88b5,0x88b6", word)
		case reserved[typ] != "":
			return nil, fmt.Errorf("node agent: EtherType %#04x belongs to %s: sockets for it would let programs read and forge other programs' frames", n, reserved[typ])
		case !slices.Contains(types, typ):
			types = append(types, typ)
		}
	}
	return types, nil
}
