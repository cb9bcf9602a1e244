package endpoint_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/internal/alloctest"
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

// TestParallelAllocations: nothing is allocated by polls and requests in a parallel
// bundle, nor by answers, while one of its handlers is running.
func TestParallelAllocations(t *testing.T) {
	nodes := hostNodes(t, endpoint.Config{})
	b, err := nodes[0].NewBundle(endpoint.Parallel)
	if err != nil {
		t.Fatal(err)
	}
	var eps [2]*endpoint.Endpoint
	for i := range eps {
		if eps[i], err = b.NewEndpoint(); err != nil {
			t.Fatal(err)
		}
		eps[i].SetTag(endpoint.TagAll)
	}
	busy, ep := eps[0], eps[1]
	entered, leave, left := make(chan bool), make(chan bool), make(chan bool)
	busy.SetHandler(hMute, func(endpoint.Token, []uint32, []byte) { close(entered); <-leave })
	ep.SetHandler(hEcho, func(t endpoint.Token, args []uint32, _ []byte) { t.Reply(hReply, args...) })
	ep.SetHandler(hReply, func(endpoint.Token, []uint32, []byte) {})
	ep.Map(0, busy.Name(), 5)
	ep.Map(1, ep.Name(), 5)
	if err := ep.Request(bg, 0, hMute); err != nil {
		t.Fatal(err)
	}
	go func() { defer close(left); b.Poll() }()
	<-entered
	round := func() {
		if err := ep.Request(bg, 1, hEcho, 1, 2, 3); err != nil {
			t.Error(err)
		}
		b.Poll()
	}
	for range 10 {
		round()
	}
	if n := alloctest.PerRun(t, 200, round); n != 0 {
		t.Errorf("%v allocations for a request, a reply and a poll", n)
	}
	close(leave)
	<-left
}
