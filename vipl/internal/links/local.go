package links

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bobnet-go/bobnet/internal/link/agent"
	"github.com/bobnet-go/bobnet/internal/link/host"
	"github.com/bobnet-go/bobnet/internal/link/optional"
	"github.com/bobnet-go/bobnet/transport"
	"golang.org/x/sys/unix"
)

// A station that has just ended may hold the name of its ports within the host slightly longer than
// the ports themselves. join retries after each joinPause: until givenPatience has passed for ports
// that the caller selected, and freePatience for others, because there are other blocks. Any user can
// hold a name for ever, except against root.
const (
	givenPatience = time.Second
	freePatience  = 50 * time.Millisecond
	joinPause     = 10 * time.Millisecond
)

// join adds the path to other stations of this host to a link without one. If the host does not
// support it, the NIC works without and logs a warning. If another process has the link's ports
// within the host, join fails after patience and leaves link unchanged: frames for the NIC would go
// to that process. The result is wrapped.
func join(ctx context.Context, link transport.Link, cfg *Config, wrap func(transport.Link) transport.Link, patience time.Duration) (transport.Link, error) {
	if _, has := link.(optional.Local); has || cfg.WireOnly || link.Info().SameHost {
		return wrap(link), nil
	}
	within := host.Config{AnyUser: cfg.AnyUser, Wrap: wrap}
	if lease := agent.LeaseOf(link); lease != nil {
		within.Sockets = lease.TakeNear()
	}
	begun := time.Now()
	joined, err := host.Join(link, &within)
	for errors.Is(err, unix.EADDRINUSE) && time.Since(begun) < patience {
		select {
		case <-ctx.Done():
			return nil, ended(ctx)
		case <-time.After(joinPause):
		}
		within.Sockets = nil // Join owns them now
		joined, err = host.Join(link, &within)
	}
	switch {
	case err == nil:
		return joined, nil
	case errors.Is(err, unix.EADDRINUSE):
		return nil, fmt.Errorf("vipl: open NIC: shared memory with other programs of this host: %w (set Config.WireOnly to disable it)", err)
	case cfg.Logger != nil:
		cfg.Logger.Warn("cannot reach other programs of this host", "interface", link.Info().Interface, "err", err)
	}
	return wrap(link), nil
}
