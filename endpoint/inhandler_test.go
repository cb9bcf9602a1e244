package endpoint_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// TestParallelInHandler: in a parallel bundle too a handler's request is refused,
// while one from another goroutine goes out although a handler is running.
func TestParallelInHandler(t *testing.T) {
	w := newWorld(sim.Options{Seed: 1})
	w.node("one", endpoint.Config{}, func(n *endpoint.Node) error {
		b, err := n.NewBundle(endpoint.Parallel)
		if err != nil {
			return err
		}
		ep, err := b.NewEndpoint()
		if err != nil {
			return err
		}
		ep.SetTag(endpoint.TagAll)
		var within, polled, beside error
		replies := 0
		ep.SetHandler(hEcho, func(t endpoint.Token, _ []uint32, _ []byte) {
			within = ep.Request(bg, 0, hEcho)
			_, polled = b.Poll()
			other := make(chan error)
			go func() { other <- ep.Request(bg, 0, 30) }()
			beside = <-other
			t.Reply(hReply)
		})
		ep.SetHandler(30, func(t endpoint.Token, _ []uint32, _ []byte) { t.Reply(hReply) })
		ep.SetHandler(hReply, func(endpoint.Token, []uint32, []byte) { replies++ })
		if err := ep.Map(0, ep.Name(), 1); err != nil {
			return err
		}
		if err := ep.Request(bg, 0, hEcho); err != nil {
			return err
		}
		p := &party{b: b, ep: ep}
		if err := p.until(n, "both replies", func() bool { return replies == 2 }); err != nil {
			return err
		}
		switch {
		case !errors.Is(within, endpoint.ErrInHandler):
			return fmt.Errorf("a request in a handler: %w", within)
		case !errors.Is(polled, endpoint.ErrInHandler):
			return fmt.Errorf("a poll in a handler: %w", polled)
		}
		return beside
	})
	if err := w.run(); err != nil {
		t.Fatal(err)
	}
}
