package mplite_test

import (
	"context"
	"fmt"
	"log"

	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// A job of four ranks adds up their numbers. They are processes on a simulated
// segment here; a program under bobnet lab calls Init(ctx, nil) instead, which
// reads the environment.
func Example() {
	const ranks = 4
	world := sim.New(sim.Options{Seed: 1, Loss: 0.1})
	for rank := range ranks {
		link := world.Station(fmt.Sprint("host", rank))
		world.Go(fmt.Sprint("rank", rank), func() {
			nic, err := vipl.Open(context.Background(), &vipl.Config{Link: link, Seed: uint64(rank) + 1})
			if err != nil {
				log.Fatal(err)
			}
			defer nic.Close()
			if err := addUp(context.Background(), &mplite.Config{Config: job.Config{Job: "sum", Rank: rank, Size: ranks, NIC: nic}}); err != nil {
				log.Fatal(err)
			}
		})
	}
	if err := world.Run(); err != nil {
		log.Fatal(err)
	}
	// Output: 4 ranks: the sum is 6
}

// addUp is one rank's part.
func addUp(ctx context.Context, cfg *mplite.Config) error {
	comm, err := mplite.Init(ctx, cfg)
	if err != nil {
		return err
	}
	sum := make([]int, 1)
	if err := mplite.Allreduce(ctx, comm, []int{comm.Rank()}, sum, mplite.Sum[int]()); err != nil {
		return err
	}
	if comm.Rank() == 0 {
		fmt.Printf("%d ranks: the sum is %d\n", comm.Size(), sum[0])
	}
	return comm.Finalize(ctx)
}
