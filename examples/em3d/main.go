// Command em3d propagates electromagnetic waves through an irregular graph, on all ranks of a
// Split-C program.
//
//	go run ./cmd/bobnet lab -n 4 -- go run ./examples/em3d -check -serial
//	BOBNET_SPLITC_LAYER=am go run ./cmd/bobnet lab -n 2 -- go run ./examples/em3d -json
//
// The graph grows with the number of ranks: each rank has 500 particles of each field, and 30 % of
// their neighbours belong to other ranks. Rank 0 reports time by phases, and counts and bytes of
// get, put and store. With -check it compares the values with those of a serial run, bit for bit.
// With -serial it reports the speed-up: the time of a single process for the graph of all ranks,
// divided by the time of all ranks. With -single each value is a separate store.
//
// Package em3d implements the method; see its doc.go.
package main

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"time"

	"github.com/bobnet-go/bobnet/internal/examples/em3d"
	"github.com/bobnet-go/bobnet/internal/examples/program"
	"github.com/bobnet-go/bobnet/internal/examples/spmd"
)

var (
	command   = spmd.Flags(false)
	particles = flag.Int("particles", em3d.DefaultParticles, "particles of each field that a rank has")
	degree    = flag.Int("degree", em3d.DefaultDegree, "particles of the other field that one depends on")
	remote    = flag.Float64("remote", em3d.DefaultRemote, "share of these that other ranks have, on average")
	steps     = flag.Int("steps", em3d.DefaultSteps, "steps to compute")
	single    = flag.Bool("single", false, "store each value by itself, not all for a rank at once")
	seed      = flag.Uint64("seed", 1, "seed of the graph and the values")
)

var about = program.About{
	Name: "em3d",
	Does: `Em3d moves electromagnetic waves through an irregular graph on all ranks of a Split-C
program.`,
	Ranks: 4,
	Args:  "-check -serial",
}

func main() { command.Main(about, func() error { return config().Check() }, run) }

func config() em3d.Config {
	return em3d.Config{Particles: *particles, Degree: *degree, Remote: *remote, Steps: *steps, Single: *single, Seed: *seed}
}

func run(ctx context.Context) error {
	c := config()
	rep, values, err := em3d.Run(ctx, command.World, c, command.Check)
	if err != nil {
		return err
	}
	if err := command.End(ctx); err != nil || command.Rank() != 0 {
		return err
	}
	if command.Check || command.Serial {
		alone := em3d.NewSystem(c, rep.Ranks)
		start := time.Now()
		want := alone.Run()
		if command.Serial {
			rep.Against(time.Since(start))
		}
		if command.Check {
			for f, v := range values {
				if !slices.Equal(v, want[f]) {
					return fmt.Errorf("the values of field %d are not those of a serial run", f)
				}
			}
			rep.Checked = "against a serial run, bit for bit"
		}
	}
	return command.Print(rep)
}
