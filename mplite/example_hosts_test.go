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

// The ranks of each host elect one of them to talk to other hosts. Here two simulated hosts have two
// ranks each.
func ExampleComm_SplitShared() {
	world := sim.New(sim.Options{Seed: 1})
	for host := range 2 {
		link := world.Station(fmt.Sprint("host", host))
		world.Go(fmt.Sprint("host", host), func() {
			nic, err := vipl.Open(context.Background(), &vipl.Config{Link: link, Seed: uint64(host) + 1})
			if err != nil {
				log.Fatal(err)
			}
			for rank := 2 * host; rank < 2*host+2; rank++ { // both use the host's NIC
				world.Go(fmt.Sprint("rank", rank), func() {
					cfg := &mplite.Config{Config: job.Config{Job: "hosts", Rank: rank, Size: 4, NIC: nic}}
					if err := elect(context.Background(), cfg); err != nil {
						log.Fatal(err)
					}
				})
			}
		})
	}
	if err := world.Run(); err != nil {
		log.Fatal(err)
	}
	// Output: 2 hosts; rank 0 speaks for 2 ranks
}

// elect is one rank's part.
func elect(ctx context.Context, cfg *mplite.Config) error {
	comm, err := mplite.Init(ctx, cfg)
	if err != nil {
		return err
	}
	near, err := comm.SplitShared(ctx, 0)
	if err != nil {
		return err
	}
	color := mplite.Undefined
	if near.Rank() == 0 {
		color = 0
	}
	leaders, err := comm.Split(ctx, color, 0) // nil on the other ranks
	if err != nil {
		return err
	}
	if comm.Rank() == 0 {
		fmt.Printf("%d hosts; rank 0 speaks for %d ranks\n", leaders.Size(), near.Size())
	}
	return comm.Finalize(ctx)
}
