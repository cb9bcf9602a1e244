// Command barrier runs barriers and sums over several programs, made of active messages that go up
// and down a binary tree.
//
//	go run ./cmd/bobnet lab -n 4 -- go run ./examples/barrier -n 10000
//
// Or by hand, on machines of one Ethernet segment (as root, or with cap_net_raw):
//
//	BOBNET_SIZE=2 BOBNET_RANK=0 barrier &    # on one
//	BOBNET_SIZE=2 BOBNET_RANK=1 barrier      # on another
//
// The parent of rank r is (r-1)/2. Values go up the tree, and each rank adds its own value to its
// children's. Then the total goes down. Its arrival means that all ranks have contributed, so a
// barrier is a sum whose value is ignored. Rank 0 prints the time per round.
//
// With -card all programs use cards of an emulated Myrinet: their interfaces are ends of cables, to
// each other or to switches (bobnet switch).
package main

import (
	"context"
	"flag"
	"fmt"

	"github.com/bobnet-go/bobnet/internal/examples/node"
	"github.com/bobnet-go/bobnet/internal/examples/program"
	"github.com/bobnet-go/bobnet/metrics"
)

var (
	count = flag.Int("n", 10_000, "rounds, each a sum over all ranks")
	card  = node.CardFlag()
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

// checkFlags validates the flags.
func checkFlags() error {
	if *count < 1 {
		return fmt.Errorf("-n %d: want at least one round", *count)
	}
	return nil
}

func run(ctx context.Context) error {
	at, err := about.Find(1)
	if err != nil {
		return err
	}
	rank, size := at.Rank, at.Size
	collector := metrics.NewCollector(nil)
	n, closeNode, err := node.Open(ctx, *card, collector)
	if err != nil {
		return err
	}
	defer closeNode()
	stop, err := collector.Instrument(*addr)
	if err != nil {
		return err
	}
	defer stop()
	t, err := join(ctx, n, at.Name, rank, size)
	if err != nil {
		return err
	}
	if err := t.barrier(ctx); err != nil { // all ranks have joined
		return err
	}
	start := n.Now()
	if err := rounds(ctx, t, *count); err != nil {
		return err
	}
	if rank == 0 {
		fmt.Fprintf(program.Stdout, "%d ranks: %d sums, all right, %.1f us each\n", size, *count, float64(n.Now()-start)/1e3/float64(*count))
	}
	return t.leave(ctx)
}

// rounds computes sums and checks them.
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
