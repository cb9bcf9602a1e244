// Package node opens the node of an example of active messages: on a NIC or on a card.
package node

import (
	"context"
	"flag"
	"os"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/endpoint/lanai"
	"github.com/bobnet-go/bobnet/metrics"
)

// CardFlag defines the flag -card, the second argument of Open.
func CardFlag() *bool {
	return flag.Bool("card", false, "use the interface as the end of a cable of an emulated Myrinet, and hold endpoints on its card")
}

// Open opens a node on the interface that BOBNET_IFACE names, or on its card of an emulated Myrinet.
// The collector watches the node and its NIC or card. The caller calls closeNode.
func Open(ctx context.Context, card bool, collector *metrics.Collector) (node *endpoint.Node, closeNode func(), err error) {
	iface := os.Getenv("BOBNET_IFACE")
	if !card {
		if node, err = endpoint.Open(ctx, &endpoint.Config{Interface: iface}); err != nil {
			return nil, nil, err
		}
		collector.WatchNIC(node.NIC())
		collector.WatchNode(node)
		return node, func() { node.Close() }, nil
	}
	c, err := lanai.Open(ctx, &lanai.Config{Interface: iface})
	if err != nil {
		return nil, nil, err
	}
	if node, err = endpoint.Open(ctx, &endpoint.Config{Card: c}); err != nil {
		c.Close()
		return nil, nil, err
	}
	collector.WatchEndpointCard(c)
	collector.WatchNode(node)
	return node, func() { node.Close(); c.Close() }, nil
}
