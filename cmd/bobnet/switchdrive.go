package main

import (
	"context"
	"sync"
	"time"

	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/myrinet"
)

// drive lets the switch work until ctx is done.
func (c *switchCall) drive(ctx context.Context, sw *myrinet.LiveSwitch, names []string, links []transport.Link) {
	var ports sync.WaitGroup
	for i := range links {
		if links[i] != nil {
			ports.Go(func() { c.keep(ctx, sw, i, names[i], &links[i]) })
		}
	}
	ports.Wait()
}

// keep has a port work until ctx is done. When its interface is gone it opens the one that
// comes in its place.
func (c *switchCall) keep(ctx context.Context, sw *myrinet.LiveSwitch, i int, name string, link *transport.Link) {
	for {
		watched, stop := context.WithCancel(ctx)
		var watch sync.WaitGroup
		watch.Go(func() { closeWhenGone(watched, *link) })
		err := sw.Drive(i)
		stop()
		watch.Wait()
		if ctx.Err() != nil {
			return
		}
		sw.Unplug(i)
		c.log.Warn("the interface of a port is gone; the port waits for one of its name", "switch", sw, "port", i, "interface", name, "err", err)
		next := c.reopen(ctx, name)
		if next == nil {
			return
		}
		*link = next
		if err := sw.Replug(i, next); err != nil {
			c.log.Error("a port cannot use the interface that has come", "switch", sw, "port", i, "interface", name, "err", err)
			return
		}
		c.log.Info("the interface of a port is there again", "switch", sw, "port", i, "interface", name)
	}
}

// reopen opens the interface of a port as soon as it is there, and returns nil when ctx is
// done.
func (c *switchCall) reopen(ctx context.Context, name string) transport.Link {
	tick := time.NewTicker(gonePause)
	defer tick.Stop()
	for {
		if link, err := c.open(ctx, name); err == nil {
			return link
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func closeAll(links []transport.Link) {
	for _, link := range links {
		if link != nil {
			link.Close()
		}
	}
}
