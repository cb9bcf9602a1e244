package paper

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/splitc"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// sharedPrimitives are read, write, get, put and store on an int.
var sharedPrimitives = []operation{
	func(ctx context.Context, w *splitc.World, p splitc.Global[int32]) error {
		_, err := splitc.Read(ctx, w, p)
		return err
	},
	func(ctx context.Context, w *splitc.World, p splitc.Global[int32]) error {
		return splitc.Write(ctx, w, p, 1)
	},
	func(ctx context.Context, w *splitc.World, p splitc.Global[int32]) error {
		var v int32
		return splitc.Get(ctx, w, &v, p)
	},
	func(ctx context.Context, w *splitc.World, p splitc.Global[int32]) error {
		return splitc.Put(ctx, w, p, 1)
	},
	func(ctx context.Context, w *splitc.World, p splitc.Global[int32]) error {
		return splitc.Store(ctx, w, p, 1)
	},
}

// repeatShared measures the primitives of figure 6-3 in shared memory, on this machine and with the
// layer itself: a model has no messages to carry.
func repeatShared(b *Bench) error {
	const least = 400 * time.Nanosecond
	slowest := time.Duration(0)
	err := sharedProgram(b.Context, func(w *splitc.World, p splitc.Global[int32]) error {
		for _, primitive := range sharedPrimitives {
			takes, err := sharedTime(b.Context, w, p, primitive)
			if err != nil {
				return err
			}
			slowest = max(slowest, takes)
		}
		return nil
	})
	b.Holds("fig6-3.shared", err == nil && slowest < least)
	return err
}

// sharedTime returns how long a primitive takes: the mean of 10,000 calls, as the median of several
// rounds.
func sharedTime(ctx context.Context, w *splitc.World, p splitc.Global[int32], primitive operation) (time.Duration, error) {
	const times = 10_000
	var rounds [5]time.Duration
	for i := range rounds {
		began := time.Now()
		for range times {
			if err := primitive(ctx, w, p); err != nil {
				return 0, err
			}
		}
		if err := w.Sync(ctx); err != nil {
			return 0, err
		}
		rounds[i] = time.Since(began) / times
	}
	slices.Sort(rounds[:])
	return rounds[len(rounds)/2], nil
}

// sharedProgram runs a program in the first of two processes of a host. The program has a pointer
// to an int of the second process.
func sharedProgram(ctx context.Context, program func(w *splitc.World, p splitc.Global[int32]) error) error {
	w := sim.New(sim.Options{Seed: 1, Limit: time.Hour})
	var errs [2]error
	for rank := range errs {
		station := w.Station(fmt.Sprint("process ", rank))
		w.Go(fmt.Sprint("process ", rank), func() {
			nic, err := vipl.Open(ctx, &vipl.Config{Link: station, Seed: uint64(rank + 1)})
			if err != nil {
				errs[rank] = err
				return
			}
			cfg := splitc.Config{Config: job.Config{Job: "paper", Rank: rank, Size: len(errs), NIC: nic}, Layer: "shm", HeapSize: 128 << 10}
			mine := program
			if rank > 0 {
				mine = func(*splitc.World, splitc.Global[int32]) error { return nil }
			}
			errs[rank] = errors.Join(sharedRank(ctx, cfg, mine), nic.Close())
		})
	}
	return errors.Join(w.Run(), errors.Join(errs[:]...))
}

// sharedRank is one of two processes of a program with pointers to each other's ints.
func sharedRank(ctx context.Context, cfg splitc.Config, program func(w *splitc.World, p splitc.Global[int32]) error) error {
	w, err := splitc.Start(ctx, &cfg)
	if err != nil {
		return err
	}
	a, err := splitc.AllSpreadMalloc[int32](ctx, w, cfg.Size, 1024)
	if err == nil {
		err = program(w, a.On(1-cfg.Rank))
	}
	if err != nil {
		w.Fail(err)
		return err
	}
	return w.Exit(ctx)
}
