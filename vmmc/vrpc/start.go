package vrpc

import (
	"context"

	"github.com/bobnet-go/bobnet/vmmc/xdr"
)

// Started is a call that Client.Start has begun.
type Started struct {
	c    *Client
	x    *Exchange
	proc uint32
	args xdr.Marshaler
	cred OpaqueAuth
}

// Start sends a call and does not wait for its reply, so that one goroutine may have several
// under way, for example to read ahead. Each call that was started is waited for once, by Wait
// or WaitInPlace, and args are only read until then.
//
// Over VMMC replies that nobody has waited for yet lie in the memory of ClientConfig.Ring:
// what has no room there is not sent, and calls wait for it (ServerConfig.RecordTimeout).
func (c *Client) Start(ctx context.Context, proc uint32, args xdr.Marshaler) (Started, error) {
	x := exchanges.Get().(*Exchange)
	cred, verf := c.auth.Authenticate()
	err := c.encode(ctx, x, proc, args, cred, verf)
	if err == nil {
		err = c.send(ctx, x)
	}
	if err != nil {
		exchanges.Put(x)
		return Started{}, err
	}
	return Started{c, x, proc, args, cred}, nil
}

// Wait waits for the results of the call as Client.Call does.
func (s Started) Wait(ctx context.Context, res xdr.Unmarshaler) error {
	err := s.wait(ctx, res, false)
	if err == nil {
		s.c.transport.Release(s.x)
	}
	exchanges.Put(s.x)
	return err
}

// WaitInPlace waits for the results of the call as Client.CallInPlace does.
func (s Started) WaitInPlace(ctx context.Context, res xdr.Unmarshaler) (Reply, error) {
	if err := s.wait(ctx, res, true); err != nil {
		exchanges.Put(s.x)
		return Reply{}, err
	}
	return Reply{s.x, s.c.transport}, nil
}

func (s Started) wait(ctx context.Context, res xdr.Unmarshaler, inPlace bool) error {
	c := s.c
	if err := c.receive(ctx, s.x); err != nil {
		return err
	}
	again, err := c.take(s.x, s.proc, s.cred, res, inPlace)
	if again {
		err = c.call(ctx, s.x, s.proc, s.args, res, inPlace)
	}
	return err
}

// aside is a call by a transport that cannot be left alone with it, on a goroutine of its own.
type aside struct {
	cancel context.CancelFunc
	done   chan error
}

// send sends what encode has made.
func (c *Client) send(ctx context.Context, x *Exchange) error {
	if t, ok := c.transport.(starter); ok {
		return t.Start(ctx, x)
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	x.aside = aside{cancel, done}
	go func() { done <- c.transport.RoundTrip(ctx, x) }()
	return nil
}

// receive waits for the reply to what send has sent.
func (c *Client) receive(ctx context.Context, x *Exchange) error {
	if t, ok := c.transport.(starter); ok {
		return t.Finish(ctx, x)
	}
	a := x.aside
	x.aside = aside{}
	defer a.cancel()
	select {
	case err := <-a.done:
		return err
	case <-ctx.Done():
		a.cancel()
		return <-a.done
	}
}
