package endpoint

import (
	"context"
	"errors"
	"testing"
)

// busyWay is a provider from which something comes at each look, which does not
// concern whoever waits.
type busyWay struct {
	idleWay
	each func()
}

func (w *busyWay) Wait(context.Context) error { return nil }
func (w *busyWay) Deliver(bool) bool          { w.each(); return false }

// TestContextWhileBusy: a context ends a wait for an answer, for a credit, or for
// the place of data, although other messages keep coming, for the bundle or for
// others.
func TestContextWhileBusy(t *testing.T) {
	const enough, most = 1000, 1_000_000 // messages until the context ends, and until the test gives up
	for name, wait := range map[string]func(ctx context.Context, ep *Endpoint) error{
		"an answer": func(ctx context.Context, ep *Endpoint) error {
			_, err := Call[string, string](ctx, ep, 0, 1, "x")
			return err
		},
		"a credit": func(ctx context.Context, ep *Endpoint) error {
			for {
				if err := ep.Request(ctx, 0, 1); err != nil {
					return err
				}
			}
		},
		"the place of data": func(ctx context.Context, ep *Endpoint) error {
			err := ep.RequestBulk(ctx, 0, 1, make([]byte, 1000), 0)
			return errors.Join(err, ctx.Err()) // it copies the data, and returns nil
		},
		"a message": func(ctx context.Context, ep *Endpoint) error {
			_, err := ep.bundle.WaitPoll(ctx)
			return err
		},
	} {
		for _, own := range []bool{true, false} {
			if own && name == "a message" { // then there is one
				continue
			}
			ctx, cancel := context.WithCancel(context.Background())
			way := &busyWay{}
			n := bareNode(way)
			busy, mute, sender := newWaiting(t, n), newWaiting(t, n), newWaiting(t, n)
			busy.ep.Map(0, mute.ep.Name(), 1)
			sender.ep.Map(0, busy.ep.Name(), 1)
			came := 0
			come := func() (goOn bool) {
				if came++; came == enough {
					cancel()
				}
				return came < most
			}
			busy.ep.SetHandler(1, func(Token, []uint32, []byte) {
				if come() {
					sender.ep.Request(context.Background(), 0, 1)
				}
			})
			way.each = func() {
				if !come() {
					n.closed = true // the test has failed
				}
			}
			if own {
				if err := sender.ep.Request(context.Background(), 0, 1); err != nil {
					t.Fatal(err)
				}
			}
			if err := wait(ctx, busy.ep); !errors.Is(err, context.Canceled) || came > 2*enough {
				t.Errorf("waiting for %s while messages come, own: %v: %v after %d of them", name, own, err, came)
			}
			cancel()
		}
	}
}
