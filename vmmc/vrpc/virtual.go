package vrpc

import (
	"context"
	"errors"

	"github.com/bobnet-go/bobnet/internal/seam/hook"
	"github.com/bobnet-go/bobnet/vmmc"
)

func init() {
	hook.ServeRPC = func(ctx context.Context, server, process any, id uint32) error {
		return serveOne(ctx, server.(*Server), process.(*vmmc.Process), id)
	}
	hook.DialRPC = func(ctx context.Context, process, name any, prog, vers uint32, ring int) (any, func() error, error) {
		c, conn, err := dialOne(ctx, process.(*vmmc.Process), name.(vmmc.Name), prog, vers, ring)
		if err != nil {
			return nil, nil, err
		}
		return c, func() error {
			conn.fail(ErrClosed)
			if err := conn.read(); err != ErrClosed {
				return err
			}
			return nil
		}, nil
	}
}

// serveOne is ListenVMMC for one client, on the caller's goroutine, until the client has gone.
func serveOne(ctx context.Context, s *Server, p *vmmc.Process, id uint32) error {
	d, err := newDoor(s, p, id, vmmc.Everybody)
	if err != nil {
		return err
	}
	if err := p.Await(ctx, func() bool { return len(d.knocking) > 0 }); err != nil {
		return err
	}
	from := <-d.knocking
	m, err := d.greet(ctx, from, false)
	if err != nil {
		return err
	}
	if err := newMappedServer(ctx, s, m, from).serve(); !errors.Is(err, vmmc.ErrUnexported) {
		return err
	}
	return nil
}

// dialOne is DialVMMC for calls that one goroutine makes in sequence.
func dialOne(ctx context.Context, p *vmmc.Process, name vmmc.Name, prog, vers uint32, ring int) (*Client, *mappedConn, error) {
	door, err := p.Import(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	m, err := knock(ctx, door, p, ring)
	if err != nil {
		return nil, nil, err
	}
	conn := &mappedConn{mapped: m, max: defaultMaxMessage, calls: newPending(), stats: new(clientStats), dead: make(chan struct{})}
	return NewClient(one{conn}, prog, vers, &ClientConfig{Timeout: -1}), conn, nil
}

// one is the Transport over one connection with calls in sequence.
type one struct{ c *mappedConn }

func (o one) RoundTrip(ctx context.Context, x *Exchange) error {
	if err := o.c.start(ctx, x); err != nil {
		return err
	}
	return o.c.finish(ctx, x)
}
func (o one) Send(ctx context.Context, x *Exchange) error { return o.c.keepBack(ctx, x) }
func (o one) Close() error                                { return nil }
func (o one) Release(x *Exchange) {
	if x.held {
		o.c.release(x)
	}
}
