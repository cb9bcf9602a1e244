// Command cholesky factors a symmetric positive definite matrix into L·Lᵀ, on all ranks of a
// Split-C program.
//
//	go run ./cmd/bobnet lab -n 4 -- go run ./examples/cholesky -check -serial
//	BOBNET_SPLITC_LAYER=am go run ./cmd/bobnet lab -n 2 -- go run ./examples/cholesky -json
//
// The matrix has 1536 x 1536 elements in blocks of 16 x 16, which are distributed over 12 x 8
// positions. Rank 0 reports time by phases, and counts and bytes of get, put and store. With -check
// it multiplies L by Lᵀ and compares the product with the matrix. With -serial it also factors the
// matrix serially and reports the speed-up. With both it compares the factors bit for bit.
//
// Package cholesky implements the method. Its doc.go explains it, and the interpretation of the
// paper's layout.
package main

import (
	"context"
	"flag"
	"fmt"
	"time"

	"github.com/bobnet-go/bobnet/internal/examples/cholesky"
	"github.com/bobnet-go/bobnet/internal/examples/program"
	"github.com/bobnet-go/bobnet/internal/examples/spmd"
)

var (
	command = spmd.Flags(false)
	n       = flag.Int("n", cholesky.DefaultN, "rows and columns of the matrix, a multiple of 16")
	down    = flag.Int("down", cholesky.DefaultDown, "positions of the layout from top to bottom")
	over    = flag.Int("over", cholesky.DefaultOver, "positions of the layout from left to right")
	seed    = flag.Uint64("seed", 1, "seed of the matrix")
)

var about = program.About{
	Name: "cholesky",
	Does: `Cholesky factors a symmetric positive definite matrix into L·Lᵀ on all ranks of a Split-C
program.`,
	Ranks: 4,
	Args:  "-check -serial",
}

func main() { command.Main(about, func() error { return config().Check(1) }, run) }

func config() cholesky.Config {
	return cholesky.Config{N: *n, Down: *down, Over: *over, Seed: *seed}
}

func run(ctx context.Context) error {
	c := config()
	rep, factor, err := cholesky.Run(ctx, command.World, c, command.Check)
	if err != nil {
		return err
	}
	if err := command.End(ctx); err != nil || command.Rank() != 0 {
		return err
	}
	if command.Check {
		off := factor.Off()
		if rep.Fact("off", off); !(off <= cholesky.Tolerance) {
			return fmt.Errorf("L·Lᵀ is off by %.3g, which is more than %.3g", off, cholesky.Tolerance)
		}
		rep.Checked = "L times Lᵀ against the matrix"
	}
	if command.Serial {
		alone := cholesky.NewMatrix(c)
		start := time.Now()
		if err := alone.Factor(); err != nil {
			return err
		}
		rep.Against(time.Since(start))
		if command.Check {
			if err := factor.Equal(alone); err != nil {
				return fmt.Errorf("the factor is not that of a serial run: %w", err)
			}
			rep.Checked += ", and against a serial run, bit for bit"
		}
	}
	return command.Print(rep)
}
