package nodeagent

import (
	"context"
	"fmt"
	"log/slog"

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
