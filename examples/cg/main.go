// Command cg solves a sparse symmetric positive definite system of equations by the method of
// conjugate gradients, on all ranks of a Split-C program.
//
//	go run ./cmd/bobnet lab -n 4 -- go run ./examples/cg -check -serial
//	BOBNET_SPLITC_LAYER=am go run ./cmd/bobnet lab -n 2 -- go run ./examples/cg -json
//	go run ./cmd/bobnet lab -n 4 -- go run ./examples/cg -mplite
//
// Rank 0 reports time by phases, counts and bytes of get, put and store, steps and residual. With
// -check it computes the residual again and compares the solution with that of a serial run. With
// -serial it reports the speed-up. -mplite runs the same program with an allgather instead of
// stores; each part for another rank then counts as a store.
//
// Package cg implements the method; see its doc.go.
package main

import (
	"context"
	"flag"
	"fmt"

	"github.com/bobnet-go/bobnet/internal/examples/cg"
	"github.com/bobnet-go/bobnet/internal/examples/program"
	"github.com/bobnet-go/bobnet/internal/examples/report"
	"github.com/bobnet-go/bobnet/internal/examples/spmd"
)

var (
	command   = spmd.Flags(true)
	n         = flag.Int("n", cg.DefaultN, "rows and columns of the matrix")
	row       = flag.Int("row", cg.DefaultRow, "average number of elements of a row outside the diagonal")
	tolerance = flag.Float64("tolerance", cg.DefaultTolerance, "of the residual, relative to the right-hand side")
	steps     = flag.Int("steps", cg.DefaultMaxSteps, "steps after which it gives up")
	seed      = flag.Uint64("seed", 1, "seed of the matrix and the right-hand side")
)

var about = program.About{
	Name: "cg",
	Does: `Cg solves a sparse symmetric positive definite system of equations by conjugate gradients on
all ranks of a Split-C program.`,
	Ranks: 4,
	Args:  "-check -serial",
}

func main() { command.Main(about, func() error { return config().Check(1) }, run) }

func config() cg.Config {
	return cg.Config{N: *n, Row: *row, Seed: *seed, Tolerance: *tolerance, MaxSteps: *steps}
}

func run(ctx context.Context) error {
	c := config()
	rep, res, err := solve(ctx, c)
	if err != nil {
		return err
	}
	if err := command.End(ctx); err != nil || command.Rank() != 0 {
		return err
	}
	rep.Fact("steps", float64(res.Steps))
	rep.Fact("residual", res.Residual)
	if command.Check || command.Serial {
		if err := compare(c, rep, res); err != nil {
			return err
		}
	}
	return command.Print(rep)
}

// compare also solves the system serially.
func compare(c cg.Config, rep *report.Report, res cg.Result) error {
	t := cg.NewTimer()
	alone, err := cg.Serial(c, t)
	if err != nil {
		return err
	}
	if command.Serial {
		rep.Against(t.Elapsed())
	}
	if !command.Check {
		return nil
	}
	residual, off := c.Residual(res.X), cg.Off(res.X, alone.X)
	rep.Fact("residual", residual)
	rep.Fact("off", off)
	if limit := 100 * c.Tolerance; !(residual <= limit) {
		return fmt.Errorf("the residual is %.3g, which is more than %.3g", residual, limit)
	}
	if limit := 1e4 * c.Tolerance; !(off <= limit) {
		return fmt.Errorf("the solution is off by %.3g from that of a serial run, which is more than %.3g", off, limit)
	}
	rep.Checked = "residual, and against a serial run"
	return nil
}

func solve(ctx context.Context, c cg.Config) (*report.Report, cg.Result, error) {
	if command.Comm != nil {
		return cg.RunMPLite(ctx, command.Comm, c)
	}
	return cg.Run(ctx, command.World, c)
}
