// Command fft3d computes the discrete Fourier transform of a cube of complex numbers in three
// dimensions, on all ranks of a Split-C program.
//
//	go run ./cmd/bobnet lab -n 4 -- go run ./examples/fft3d -check -serial
//	BOBNET_SPLITC_LAYER=am go run ./cmd/bobnet lab -n 2 -- go run ./examples/fft3d -json
//	go run ./cmd/bobnet lab -n 4 -- go run ./examples/fft3d -mplite
//
// Rank 0 reports time by phases, and counts and bytes of get, put and store. With -check it
// compares the result with that of gonum's package fourier. With -serial it also transforms the
// cube serially and reports the speed-up. -mplite runs the same program with messages instead of
// stores, each of which then counts as a store.
//
// The cube is in the spread heaps. If it does not fit, set BOBNET_SPLITC_HEAP to a larger size, for
// example 512m.
//
// Package fft3d implements the method; see its doc.go.
package main

import (
	"context"
	"flag"
	"fmt"
	"time"

	"github.com/bobnet-go/bobnet/internal/examples/fft3d"
	"github.com/bobnet-go/bobnet/internal/examples/program"
	"github.com/bobnet-go/bobnet/internal/examples/report"
	"github.com/bobnet-go/bobnet/internal/examples/spmd"
)

var (
	command = spmd.Flags(true)
	n       = flag.Int("n", fft3d.DefaultN, "points along each edge of the cube, a power of two")
	seed    = flag.Uint64("seed", 1, "seed of the values at the points")
)

var about = program.About{
	Name:  "fft3d",
	Does:  `Fft3d computes a three-dimensional Fourier transform on all ranks of a Split-C program.`,
	Ranks: 4,
	Args:  "-check -serial",
}

func main() { command.Main(about, func() error { return config().Check(1) }, run) }

func config() fft3d.Config {
	return fft3d.Config{N: *n, Seed: *seed}
}

func run(ctx context.Context) error {
	c := config()
	rep, cube, err := transform(ctx, c)
	if err != nil {
		return err
	}
	if err := command.End(ctx); err != nil || command.Rank() != 0 {
		return err
	}
	if command.Check {
		off := c.Compare(cube)
		if rep.Fact("off", off); !(off <= fft3d.Tolerance) {
			return fmt.Errorf("the result is off by %.3g from gonum's, which is more than %.3g", off, fft3d.Tolerance)
		}
		rep.Checked = "against gonum's Fourier transform"
	}
	if command.Serial {
		a := c.Cube()
		start := time.Now()
		fft3d.Serial(c, a)
		rep.Against(time.Since(start))
	}
	return command.Print(rep)
}

func transform(ctx context.Context, c fft3d.Config) (*report.Report, []complex128, error) {
	if command.Comm != nil {
		return fft3d.RunMPLite(ctx, command.Comm, c, command.Check)
	}
	return fft3d.Run(ctx, command.World, c, command.Check)
}
