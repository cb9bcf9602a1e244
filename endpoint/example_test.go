package endpoint_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

const (
	hSquare = 1 // a handler's number
	network = 7 // the tag that admits to this virtual network
)

// A server of one function, and a client that calls it, on a simulated segment
// that loses every tenth frame. A program on Ethernet names an interface in
// endpoint.Config, not a NIC.
func Example() {
	world := sim.New(sim.Options{Seed: 1, Loss: 0.1})
	server, client := world.Station("server"), world.Station("client")
	world.Go("server", func() {
		if err := keepSquares(context.Background(), server, 3); err != nil {
			log.Fatal(err)
		}
	})
	world.Go("client", func() {
		if err := visitSquares(context.Background(), client, 3); err != nil {
			log.Fatal(err)
		}
	})
	if err := world.Run(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// 1 squared is 1
	// 2 squared is 4
	// 3 squared is 9
}

// keepSquares answers a number of calls.
func keepSquares(ctx context.Context, link transport.Link, calls int) error {
	node, bundle, ep, err := joinSquares(link, 1)
	if err != nil {
		return err
	}
	defer node.Close()
	square := func(_ endpoint.Token, n int64) (int64, error) { calls--; return n * n, nil }
	if err := errors.Join(endpoint.Serve(ep, hSquare, square), ep.Publish("squares")); err != nil {
		return err
	}
	for calls > 0 {
		if _, err := bundle.WaitPoll(ctx); err != nil {
			return err
		}
	}
	return nil
}

// visitSquares calls it.
func visitSquares(ctx context.Context, link transport.Link, calls int64) error {
	node, _, ep, err := joinSquares(link, 2)
	if err != nil {
		return err
	}
	defer node.Close()
	name, err := node.Find(ctx, "squares")
	if err != nil {
		return err
	}
	if err := ep.Map(0, name, network); err != nil {
		return err
	}
	for n := range calls {
		answer, err := endpoint.Call[int64, int64](ctx, ep, 0, hSquare, n+1)
		if err != nil {
			return err
		}
		fmt.Printf("%d squared is %d\n", n+1, answer)
	}
	return nil
}

// joinSquares opens a node, and makes an endpoint of the virtual network there.
func joinSquares(link transport.Link, seed uint64) (*endpoint.Node, *endpoint.Bundle, *endpoint.Endpoint, error) {
	nic, err := vipl.Open(context.Background(), &vipl.Config{Link: link, Seed: seed})
	if err != nil {
		return nil, nil, nil, err
	}
	node, err := endpoint.Open(context.Background(), &endpoint.Config{NIC: nic})
	if err != nil {
		return nil, nil, nil, err
	}
	bundle, err := node.NewBundle(endpoint.Sequential)
	if err != nil {
		return nil, nil, nil, err
	}
	ep, err := bundle.NewEndpoint()
	if err != nil {
		return nil, nil, nil, err
	}
	ep.SetTag(network)
	return node, bundle, ep, nil
}
