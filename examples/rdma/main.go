// Command rdma connects its ranks to a ring and gives each rank the data of all, with one-sided
// operations only. A rank writes into the memory of the rank to its right (RDMA write), and at the
// end reads that rank's memory (RDMA read). The owner of the memory takes no part in either.
//
//	go run ./cmd/bobnet lab -n 4 -- go run ./examples/rdma
//	go run ./cmd/bobnet lab -n 3 --mtu 9000 -- go run ./examples/rdma -size 100000
//
// Each rank has an array with one block for each rank, and fills its own block. In each step it
// writes the block that arrived last into its right neighbour's array. Immediate data identify the
// block. After size-1 steps every array is complete: a ring allgather. Then each rank reads the
// array of its right neighbour and compares it with its own, byte by byte. Read ring.go for the
// steps.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/bobnet-go/bobnet/internal/examples/program"
	"github.com/bobnet-go/bobnet/metrics"
	"github.com/bobnet-go/bobnet/vipl"
)

var (
	size = flag.Int("size", 1<<20, "bytes in a block")
	addr = program.MetricsFlag()
)

var about = program.About{
	Name: "rdma",
	Does: `Rdma joins its ranks to a ring and gives each the data of all, by RDMA writes and reads
only.`,
	Ranks: 4,
}

func main() { about.Main(checkFlags, run) }

// checkFlags validates the flags.
func checkFlags() error {
	if *size < 1 || *size > vipl.MaxTransferSize {
		return fmt.Errorf("-size %d: want 1 to %d bytes", *size, vipl.MaxTransferSize)
	}
	return nil
}

func run(ctx context.Context) error {
	at, err := about.Find(2)
	if err != nil {
		return err
	}
	rank, ranks := at.Rank, at.Size
	if *size > vipl.MaxTransferSize/ranks {
		return fmt.Errorf("-size %d: want 1 to %d bytes for %d ranks", *size, vipl.MaxTransferSize/ranks, ranks)
	}
	nic, err := vipl.Open(ctx, &vipl.Config{Interface: os.Getenv("BOBNET_IFACE")})
	if err != nil {
		return err
	}
	defer nic.Close()
	collector := metrics.NewCollector(nil)
	collector.WatchNIC(nic)
	stop, err := collector.Instrument(*addr)
	if err != nil {
		return err
	}
	defer stop()
	r, err := newRing(nic, at.Name, rank, ranks, *size)
	if err != nil {
		return err
	}
	wrote, read, err := r.run(ctx)
	if err != nil {
		return fmt.Errorf("rank %d: %w", rank, err)
	}
	fmt.Fprintf(program.Stdout, "rank %d: wrote %d bytes to the right in %v, read %d bytes from there in %v: all %d blocks are right\n",
		rank, (ranks-1)**size, wrote.Round(time.Microsecond), ranks**size, read.Round(time.Microsecond), ranks)
	return nil
}
