package nodeagent

import (
	"context"
	"fmt"
	"log/slog"
	"slices"

	"github.com/bobnet-go/bobnet/internal/link/agent"
	"github.com/bobnet-go/bobnet/internal/link/iface"
	"github.com/vishvananda/netlink"
)

// watchLinks has interfaces guarded that appear, until the result is called or ctx is done.
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
		for ctx.Err() == nil {
			if err := g.hook(); err != nil {
				log.Warn("an interface is not guarded", "err", err)
			}
			select {
			case <-ctx.Done():
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
