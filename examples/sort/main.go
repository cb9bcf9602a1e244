// Command sort sorts a file of integers by sample sort, on all ranks of a job.
//
//	go run ./cmd/bobnet lab -n 4 -- go run ./examples/sort -gen 1000000 -out sorted.txt
//	go run ./cmd/bobnet lab -n 4 -- go run ./examples/sort -in numbers.txt -out sorted.txt
//
// Files hold one 64-bit integer per line or, if their names end in .bin, eight bytes each in
// little-endian order. -gen N sorts N random integers; with -in, it writes them to that file first.
//
// Rank 0 reads the input and distributes it. Each rank sorts its share and offers regular samples
// of it. From all samples all ranks choose the same splitters. One alltoallv moves every integer to
// the rank between whose splitters it lies, and each rank merges what it receives. The result is
// verified: the integers are in order, and by checksum the same as before. Rank 0 writes it, part
// by part. Read sample.go for the idea and parallel.go for the messages.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"time"

	"github.com/bobnet-go/bobnet/internal/examples/program"
	"github.com/bobnet-go/bobnet/internal/userfile"
	"github.com/bobnet-go/bobnet/metrics"
	"github.com/bobnet-go/bobnet/mplite"
)

var (
	in   = flag.String("in", "", "`FILE` of integers to sort")
	out  = flag.String("out", "", "`FILE` to write the sorted integers to; empty for none")
	gen  = flag.Int("gen", 0, "sort `N` random integers")
	seed = flag.Uint64("seed", 1, "seed of -gen")
	addr = program.MetricsFlag()
)

var about = program.About{
	Name: "sort",
	Does: `Sort sorts a file of integers on all ranks of a job by sample sort over MPLite. It also
runs alone, as a job of one rank.`,
	Ranks: 4,
	Args:  "-gen 1000000 -out sorted.txt",
}

func main() { about.Main(nil, run) }

func run(ctx context.Context) error {
	comm, err := mplite.Init(ctx, nil)
	if err != nil {
		return err
	}
	collector := metrics.NewCollector(nil)
	collector.WatchRank(comm)
	stop, err := collector.Instrument(*addr)
	if err != nil {
		return err
	}
	defer stop()
	var data []int64
	if comm.Rank() == 0 {
		if err := userfile.Check(*out); err != nil {
			return err
		}
		if data, err = input(*in, *gen, *seed); err != nil {
			return err
		}
	}
	start := time.Now()
	sorted, err := sortAll(ctx, comm, data)
	if err != nil {
		return err
	}
	fmt.Fprintf(program.Stdout, "rank %d has %d integers\n", comm.Rank(), len(sorted))
	if comm.Rank() == 0 {
		fmt.Fprintf(program.Stdout, "sorted and verified %d integers on %d ranks in %v\n", len(data), comm.Size(), time.Since(start).Round(time.Millisecond))
	}
	if err := output(ctx, comm, sorted, *out); err != nil {
		return err
	}
	return comm.Finalize(ctx)
}

// input returns the integers to sort.
func input(name string, n int, seed uint64) ([]int64, error) {
	switch {
	case n < 0 || n == 0 && name == "":
		return nil, errors.New("nothing to sort: give a file with -in or a number of random integers with -gen")
	case n > 0 && name == "":
		return generate(n, seed), nil
	case n > 0:
		data := generate(n, seed)
		return data, writeFile(name, data)
	}
	return readFile(name)
}

// output writes the parts of all ranks, in order, to a file of rank 0.
func output(ctx context.Context, comm *mplite.Comm, sorted []int64, name string) error {
	if name == "" {
		return nil
	}
	if comm.Rank() != 0 {
		return collect(ctx, comm, sorted, nil)
	}
	f, err := create(name)
	if err != nil {
		return err
	}
	err = collect(ctx, comm, sorted, f.write)
	if err := errors.Join(err, f.close()); err != nil {
		return err
	}
	fmt.Fprintln(program.Stdout, "result in", name)
	return nil
}
