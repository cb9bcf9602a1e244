package links

import (
	"errors"
	"fmt"
	"time"

	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/host"
	"golang.org/x/sys/unix"
)

// A station that has just ended may hold the name of its ports within the host a
// little longer than the ports themselves. join waits for it so often and so long.
const (
	joinTries = 100
	joinPause = 10 * time.Millisecond
)

// join adds the way to other stations of this host to a link that has none. If
// the host has none the NIC does without and says so. If somebody else has the
// link's ports there it fails after so many tries, and leaves link as it was: what is
// meant for the NIC would go to him. The link is wrapped.
func join(link transport.Link, cfg *Config, wrap func(transport.Link) transport.Link, tries int) (transport.Link, error) {
	if _, has := link.(transport.Local); has || cfg.WireOnly || link.Info().SameHost {
		return wrap(link), nil
	}
	within := host.Config{AnyUser: cfg.AnyUser, Wrap: wrap}
	joined, err := host.Join(link, &within)
	for try := 1; errors.Is(err, unix.EADDRINUSE) && try < tries; try++ {
		time.Sleep(joinPause)
		joined, err = host.Join(link, &within)
	}
	switch {
	case err == nil:
		return joined, nil
	case errors.Is(err, unix.EADDRINUSE):
		return nil, fmt.Errorf("vipl: open NIC: the way to other programs on this host: %w; Config.WireOnly does without it", err)
	case cfg.Logger != nil:
		cfg.Logger.Warn("no way to other programs on this host", "interface", link.Info().Interface, "err", err)
	}
	return wrap(link), nil
}
