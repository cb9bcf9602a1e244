package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/bobnet-go/bobnet/transport"
)

// gonePause is the time between looks at an interface that may be gone, or may be there again.
const gonePause = 250 * time.Millisecond

// serveAgain calls serve. If that ends because its network interface is gone, serveAgain calls
// it again when an interface of that name is there, until ctx is done. Serve writes the name of
// the interface that it has opened to name, and takes it from there.
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
			slog.Warn(what+" waits for its interface to be there again", "interface", *name, "err", err)
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

// closeWhenGone closes a link when its interface is gone, or ctx is done. It returns the error of
// an interface that is gone, else nil.
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
