// Command kv is a key-value store made of active messages. One program holds the table; the others
// put and get values.
//
//	go run ./cmd/bobnet lab -n 4 -- go run ./examples/kv -n 10000
//
// Or by hand, on machines of one Ethernet segment (as root, or with cap_net_raw), for two clients:
//
//	BOBNET_SIZE=3 BOBNET_RANK=0 kv &    # on one
//	BOBNET_SIZE=3 BOBNET_RANK=1 kv      # on another
//	BOBNET_SIZE=3 BOBNET_RANK=2 kv      # on a third
//
// Rank 0 is the server. Put and get are two handlers, which run one at a time when it polls, and so
// need no lock. Each client puts its own keys and gets them back, one request at a time, and prints
// the rate. Then it reports to the server that it has finished. The server ends when all clients
// have finished, and prints the number of keys.
//
// With -card all programs use cards of an emulated Myrinet: their interfaces are ends of cables, to
// each other or to switches (bobnet switch). Programs of one host share a card that bobnet card
// --program am2 serves there.
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
	count = flag.Int("n", 10_000, "keys that each client puts and gets")
	card  = node.CardFlag()
	addr  = program.MetricsFlag()
)

var about = program.About{
	Name: "kv",
	Does: `Kv is a key-value store made of active messages. Rank 0 keeps the table; the other ranks
put keys and get them back.`,
	Ranks: 4,
	Args:  "-n 10000",
}

func main() { about.Main(checkFlags, run) }

// checkFlags validates the flags.
func checkFlags() error {
	if *count < 1 {
		return fmt.Errorf("-n %d: want at least one key", *count)
	}
	return nil
}

func run(ctx context.Context) error {
	at, err := about.Find(2)
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
	word := "kv/" + at.Name
	if rank == 0 {
		keys, err := serve(ctx, n, word, size-1)
		if err == nil {
			fmt.Fprintf(program.Stdout, "server: %d clients have put %d keys\n", size-1, keys)
		}
		return err
	}
	store, err := dial(ctx, n, word)
	if err != nil {
		return err
	}
	return exercise(ctx, store, rank, *count)
}

// exercise puts and gets the keys of this client.
func exercise(ctx context.Context, s *store, rank, count int) error {
	start := s.node.Now()
	for i := range count {
		key := fmt.Sprintf("%d/%d", rank, i)
		if err := s.put(ctx, key, []byte("value of "+key)); err != nil {
			return err
		}
	}
	for i := range count {
		key := fmt.Sprintf("%d/%d", rank, i)
		value, found, err := s.get(ctx, key)
		if err != nil {
			return err
		}
		if !found || string(value) != "value of "+key {
			return fmt.Errorf("the store has %q for %q", value, key)
		}
	}
	took := float64(s.node.Now()-start) / 1e9
	fmt.Fprintf(program.Stdout, "client %d: %d puts and gets in %.3f s, %.0f a second\n", rank, 2*count, took, float64(2*count)/took)
	return s.bye(ctx)
}
