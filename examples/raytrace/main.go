// Command raytrace draws a teapot, on all ranks of a Split-C program.
//
//	go run ./cmd/bobnet lab -n 4 -- go run ./examples/raytrace -out teapot.png -serial
//	BOBNET_SPLITC_LAYER=am go run ./cmd/bobnet lab -n 2 -- go run ./examples/raytrace -json
//	go run ./examples/raytrace -samples 16 -out teapot.png
//
// A counter at rank 0 distributes the work: an idle rank takes the next tile of the picture. Rank 0
// writes the picture and reports time by phases, and counts and bytes of get, put and store. With
// -check it also draws the picture serially and compares all pixels. With -serial it reports the
// speed-up.
//
// Package raytrace implements the method; see its doc.go.
package main

import (
	"context"
	"flag"
	"fmt"
	"time"

	"github.com/bobnet-go/bobnet/internal/examples/program"
	"github.com/bobnet-go/bobnet/internal/examples/raytrace"
	"github.com/bobnet-go/bobnet/internal/examples/spmd"
	"github.com/bobnet-go/bobnet/internal/userfile"
)

var (
	command = spmd.Flags(false)
	out     = flag.String("out", "", "PNG `FILE` to write the picture to; empty for none")
	width   = flag.Int("width", raytrace.DefaultWidth, "pixels of the picture from left to right")
	height  = flag.Int("height", raytrace.DefaultHeight, "pixels of the picture from top to bottom")
	samples = flag.Int("samples", raytrace.DefaultSide, "a pixel is the mean of `N` x N samples")
	grid    = flag.Int("grid", raytrace.DefaultGrid, "each patch of the teapot is `N` x N pairs of triangles")
	tile    = flag.Int("tile", raytrace.DefaultTile, "pixels along the side of a tile")
	seed    = flag.Uint64("seed", 1, "seed of the samples")
)

var about = program.About{
	Name:  "raytrace",
	Does:  `Raytrace draws a teapot on all ranks of a Split-C program.`,
	Ranks: 4,
	Args:  "-out teapot.png -serial",
}

func main() { command.Main(about, func() error { return config().Check() }, run) }

func config() raytrace.Config {
	return raytrace.Config{Width: *width, Height: *height, Side: *samples, Grid: *grid, Tile: *tile, Seed: *seed}
}

func run(ctx context.Context) error {
	c := config()
	if command.Rank() == 0 {
		if err := userfile.Check(*out); err != nil {
			return err
		}
	}
	rep, picture, err := raytrace.Run(ctx, command.World, c)
	if err != nil {
		return err
	}
	if err := command.End(ctx); err != nil || command.Rank() != 0 {
		return err
	}
	if *out != "" {
		if err := picture.WriteFile(*out); err != nil {
			return err
		}
	}
	if command.Check || command.Serial {
		tracer := raytrace.NewTracer(c)
		start := time.Now()
		alone := tracer.Serial()
		if command.Serial {
			rep.Against(time.Since(start))
		}
		if command.Check {
			if err := picture.Equal(alone); err != nil {
				return fmt.Errorf("the picture is not that of a serial run: %w", err)
			}
			rep.Checked = "against a serial run, all pixels"
		}
	}
	return command.Print(rep)
}
