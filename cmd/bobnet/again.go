package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/bobnet-go/bobnet/transport"
)

// gonePause is the interval of checks whether an interface has disappeared or reappeared.
const gonePause = 250 * time.Millisecond

// serveAgain calls serve. If serve returns because its network interface was deleted, serveAgain
// calls it again as soon as an interface of that name exists, until ctx is done. serve stores the
// name of the interface that it opened in name, and opens that name the next time.
func serveAgain(ctx context.Context, what string, name *string, serve func() error) error {
	tick := time.NewTicker(gonePause)
	defer tick.Stop()
	for gone := false; ; {
		err := serve()
		switch {
		case ctx.Err() != nil:
			return err
		case errors.Is(err, transport.ErrGone):
			gone = true
			slog.Warn(what+": interface deleted, waiting for a new one", "interface", *name, "err", err)
		case !gone || !errors.Is(err, transport.ErrInterface) && !errors.Is(err, transport.ErrLinkDown):
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// closeWhenGone closes a link when its interface is deleted or ctx is done. It returns an error if
// the interface was deleted, and nil otherwise.
func closeWhenGone(ctx context.Context, link transport.Link) error {
	defer link.Close()
	tick := time.NewTicker(gonePause)
	defer tick.Stop()
	for {
		if err := transport.Check(link); errors.Is(err, transport.ErrGone) {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
