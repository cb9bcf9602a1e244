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

// lookEvery is how often the agent looks whether the table by which the kernel judges frames is there.
const lookEvery = time.Second

// watchLinks has interfaces guarded that appear, and all of them again if somebody has removed the
// table, until the result is called or ctx is done.
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
				log.Warn("somebody has removed the rules for what programs send: made again", "table", tableName)
			}
			if err = errors.Join(err, g.hook()); err != nil && err.Error() != said {
				log.Warn("an interface is not guarded", "err", err)
			}
			said = fmt.Sprint(err)
			select {
			case <-ctx.Done():
			case <-tick.C:
			case _, open := <-updates:
				if open {
					continue
				}
				if updates, err = subscribe(ctx); err != nil { // some were lost; hook looks at all
					log.Error("new interfaces are not guarded: start the agent again", "err", err)
					return
				}
			}
		}
	}()
	return func() { cancel(); <-ended }, nil
}

// subscribe returns a channel of changes of interfaces, which is closed when some are lost.
func subscribe(ctx context.Context) (<-chan netlink.LinkUpdate, error) {
	updates := make(chan netlink.LinkUpdate, 64)
	if err := netlink.LinkSubscribe(updates, ctx.Done()); err != nil {
		return nil, fmt.Errorf("node agent: watch interfaces: %w", err)
	}
	return updates, nil
}

// device returns a name of an interface that is short enough for agent.Guard.Device. An interface
// with a longer name gets another one beside it, which goes with the interface.
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
		return "", fmt.Errorf("the name of interface %s is longer than %d bytes, and it cannot have a shorter one: %w: ip link property add dev %s altname %s",
			ifi.Name, agent.MaxDevice, err, ifi.Name, name)
	}
	return name, nil
}

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
