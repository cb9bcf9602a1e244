// Command blackboard is a board that several programs write to and all of them read. The first
// program exports it. The others, the writers, import it and write their lines into it, each with a
// notification. No program calls receive.
//
//	go run ./cmd/bobnet lab -n 4 -- go run ./examples/blackboard -n 1000
//
// Or by hand, on machines of one Ethernet segment (as root, or with cap_net_raw), for two writers:
//
//	BOBNET_SIZE=3 BOBNET_RANK=0 blackboard &    # on one
//	BOBNET_SIZE=3 BOBNET_RANK=1 blackboard      # on another
//	BOBNET_SIZE=3 BOBNET_RANK=2 blackboard      # on a third
//
// Each writer exports a copy of the board. When a line arrives, the first program's handler appends
// it to every copy, again with a notification. So all readers see the same lines in the same order,
// and print their checksum. Read board.go for the steps.
//
// With -card all programs use cards of an emulated Myrinet: their interfaces are ends of cables, to
// each other or to switches (bobnet switch). Programs of one host share a card that
// bobnet card --program vmmc serves there.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"github.com/bobnet-go/bobnet/internal/examples/program"
	"github.com/bobnet-go/bobnet/metrics"
	"github.com/bobnet-go/bobnet/vmmc"
	"github.com/bobnet-go/bobnet/vmmc/lanai"
)

// maxLines is the most lines of a writer.
const maxLines = 100_000

var (
	count = flag.Int("n", 1000, "lines that each writer writes")
	card  = flag.Bool("card", false, "use the interface as the end of a cable of an emulated Myrinet, and have its card carry out the sends")
	addr  = program.MetricsFlag()
)

var about = program.About{
	Name: "blackboard",
	Does: `Blackboard is a board that several programs write on and all of them read. Rank 0 exports
the board; the other ranks import it (VMMC) and write lines into it.`,
	Ranks: 4,
	Args:  "-n 1000",
}

func main() { about.Main(checkFlags, run) }

// checkFlags validates the flags.
func checkFlags() error {
	if *count < 1 || *count > maxLines {
		return fmt.Errorf("-n %d: want 1 to %d lines", *count, maxLines)
	}
	return nil
}

// open opens a process on a NIC, or on a card with -card, and adds it to the metrics.
func open(ctx context.Context, cfg *vmmc.Config, seen *metrics.Collector) (p *vmmc.Process, closeProcess func(), err error) {
	if !*card {
		cfg.Interface = os.Getenv("BOBNET_IFACE")
		if p, err = vmmc.Open(ctx, cfg); err == nil {
			seen.WatchNIC(p.NIC())
		}
		return p, func() { p.Close() }, err
	}
	if cfg.Card, err = lanai.Open(ctx, &lanai.Config{Interface: os.Getenv("BOBNET_IFACE")}); err != nil {
		return nil, nil, err
	}
	if p, err = vmmc.Open(ctx, cfg); err != nil {
		cfg.Card.Close()
		return nil, nil, err
	}
	seen.WatchVMMCCard(cfg.Card)
	return p, func() { p.Close(); cfg.Card.Close() }, nil
}

func run(ctx context.Context) error {
	at, err := about.Find(2)
	if err != nil {
		return err
	}
	rank, size := at.Rank, at.Size
	collector := metrics.NewCollector(nil)
	p, closeProcess, err := open(ctx, &vmmc.Config{Process: uint32(rank), Job: "blackboard/" + at.Name}, collector)
	if err != nil {
		return err
	}
	defer closeProcess()
	collector.WatchProcess(p)
	stop, err := collector.Instrument(*addr)
	if err != nil {
		return err
	}
	defer stop()
	b := &board{p: p, writers: size - 1, lines: *count}
	if rank == 0 {
		err := b.keep(ctx)
		if err == nil {
			fmt.Fprintf(program.Stdout, "board: %d writers have written %d lines\n", b.writers, b.total)
		}
		return err
	}
	sum, err := b.write(ctx, rank)
	if err == nil {
		fmt.Fprintf(program.Stdout, "writer %d: %d lines, checksum %08x\n", rank, b.total, sum)
	}
	return err
}
