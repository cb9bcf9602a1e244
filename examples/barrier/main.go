// Command barrier joins programs by a barrier and a sum over all of them, made
// of active messages that go up and down a binary tree.
//
//	go run ./cmd/bobnet lab -n 4 -- go run ./examples/barrier -n 10000
//
// Or by hand, on machines of one Ethernet segment (as root, or with
// cap_net_raw):
//
//	BOBNET_SIZE=2 BOBNET_RANK=0 barrier &    # on one
//	BOBNET_SIZE=2 BOBNET_RANK=1 barrier      # on another
//
// Rank r's parent is (r-1)/2. The values go up the tree, each rank adding its own
// to its children's, and the sum of all comes down again: that it has come means
// that all ranks have been there, so a barrier is a sum that nobody looks at.
// Rank 0 prints how long a round takes.
//
// With -card all programs use the cards of an emulated Myrinet: their interfaces are ends of
// cables, to each other or to switches (bobnet switch).
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/endpoint/lanai"
	"github.com/bobnet-go/bobnet/internal/examples/program"
	"github.com/bobnet-go/bobnet/metrics"
)

var (
	count = flag.Int("n", 10_000, "rounds, each a sum over all ranks")
	card  = flag.Bool("card", false, "use the interface as the end of a cable of an emulated Myrinet, and hold endpoints on its card")
	addr  = program.MetricsFlag()
)

var about = program.About{
	Name: "barrier",
	Does: `Barrier joins programs by a barrier and a sum over all of them. Active messages carry the
values up and down a binary tree.`,
	Ranks: 4,
	Args:  "-n 10000",
}

func main() { about.Main(checkFlags, run) }

// checkFlags reports flags that do not fit.
func checkFlags() error {
	if *count < 1 {
		return fmt.Errorf("-n %d: want at least one round", *count)
	}
	return nil
}

// open opens a node on a NIC, or on a card with -card, and has it watched.
func open(ctx context.Context, seen *metrics.Collector) (node *endpoint.Node, closeNode func(), err error) {
	iface := os.Getenv("BOBNET_IFACE")
	if !*card {
		if node, err = endpoint.Open(ctx, &endpoint.Config{Interface: iface}); err == nil {
			seen.WatchNIC(node.NIC())
		}
		return node, func() { node.Close() }, err
	}
	c, err := lanai.Open(ctx, &lanai.Config{Interface: iface})
	if err != nil {
		return nil, nil, err
	}
	if node, err = endpoint.Open(ctx, &endpoint.Config{Card: c}); err != nil {
		c.Close()
		return nil, nil, err
	}
	seen.WatchEndpointCard(c)
	return node, func() { node.Close(); c.Close() }, nil
}

func run(ctx context.Context) error {
	at, err := about.Find(1)
	if err != nil {
		return err
	}
	rank, size := at.Rank, at.Size
	collector := metrics.NewCollector(nil)
	node, closeNode, err := open(ctx, collector)
	if err != nil {
		return err
	}
	defer closeNode()
	collector.WatchNode(node)
	stop, err := collector.Instrument(*addr)
	if err != nil {
		return err
	}
	defer stop()
	t, err := join(ctx, node, at.Name, rank, size)
	if err != nil {
		return err
	}
	if err := t.barrier(ctx); err != nil { // all are there
		return err
	}
	start := node.Now()
	if err := rounds(ctx, t, *count); err != nil {
		return err
	}
	if rank == 0 {
		fmt.Fprintf(program.Stdout, "%d ranks: %d sums, all right, %.1f us each\n", size, *count, float64(node.Now()-start)/1e3/float64(*count))
	}
	return t.leave(ctx)
}

// rounds sums and checks.
func rounds(ctx context.Context, t *tree, count int) error {
	for i := range uint64(count) {
		sum, err := t.sum(ctx, uint64(t.rank)*i)
		if err != nil {
			return err
		}
		if want := uint64(t.size*(t.size-1)/2) * i; sum != want {
			return fmt.Errorf("round %d: the sum is %d, want %d", i, sum, want)
		}
	}
	return nil
}
