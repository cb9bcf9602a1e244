// Command notify is a server without a loop: the completion queue calls its handlers. Clients
// connect and send numbers. The server answers each number with the sum of all numbers that the
// client has sent.
//
//	go run ./cmd/bobnet lab -n 4 -- go run ./examples/notify -n 10000
//
// Or by hand, on machines of one Ethernet segment (as root, or with cap_net_raw), for two clients:
//
//	BOBNET_SIZE=3 BOBNET_RANK=0 notify &    # on one
//	BOBNET_SIZE=3 BOBNET_RANK=1 notify      # on another
//	BOBNET_SIZE=3 BOBNET_RANK=2 notify      # on a third
//
// Rank 0 is the server. Its main goroutine only accepts connections. Everything else happens in
// handlers, which run one at a time, so they need no locks. The server ends when all clients have
// connected and left.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"github.com/bobnet-go/bobnet/internal/examples/program"
	"github.com/bobnet-go/bobnet/metrics"
	"github.com/bobnet-go/bobnet/vipl"
)

var (
	count = flag.Int("n", 10_000, "numbers that each client sends")
	addr  = program.MetricsFlag()
)

var about = program.About{
	Name: "notify",
	Does: `Notify is a server without a loop: the completion queue calls its handler. The other ranks
send numbers, and the server answers each with the sum so far.`,
	Ranks: 4,
	Args:  "-n 10000",
}

func main() { about.Main(checkFlags, run) }

// checkFlags validates the flags.
func checkFlags() error {
	if *count < 1 {
		return fmt.Errorf("-n %d: want at least one number", *count)
	}
	return nil
}

func run(ctx context.Context) error {
	at, err := about.Find(2)
	if err != nil {
		return err
	}
	rank, size := at.Rank, at.Size
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
	name := "notify/" + at.Name
	if rank == 0 {
		return serve(ctx, nic, name, size-1, program.Stdout)
	}
	sum, err := send(ctx, nic, name, rank, *count)
	if err == nil {
		fmt.Fprintf(program.Stdout, "client %d: sent %d numbers, their sum is %d\n", rank, *count, sum)
	}
	return err
}

// A message is one number of wordSize bytes, in either direction. A client may have depth of them
// in flight.
const (
	wordSize = 8
	depth    = 16
)

// slots returns the memory of one side of a connection, divided into descriptors that the NIC may
// use at the same time.
func slots(nic *vipl.NIC, n int) ([]*vipl.Descriptor, error) {
	buf, mem, err := nic.AllocMem(n*wordSize, nil)
	if err != nil {
		return nil, err
	}
	list := make([]*vipl.Descriptor, n)
	for i := range list {
		list[i] = &vipl.Descriptor{Segs: []vipl.Segment{{Data: buf[i*wordSize : (i+1)*wordSize], Handle: mem}}}
	}
	return list, nil
}
