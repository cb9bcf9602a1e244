// Command heat simulates heat diffusion in a plate that is divided among ranks, which exchange the
// edges of their parts at every step.
//
//	go run ./cmd/bobnet lab -n 4 -- go run ./examples/heat -out heat.png
//
// The plate starts as a picture, the embedded one or any PNG (-in): the brighter a pixel, the
// hotter. White stays hot, and so does the rim. Rank 0 reads the picture and writes the result in
// colour. With -check, the default, it repeats the computation serially and compares the results
// bit for bit. Without a lab the program is a job of one rank and needs no network.
//
// Package heat implements the simulation; read its exchange.go first.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/bobnet-go/bobnet/internal/examples/heat"
	"github.com/bobnet-go/bobnet/internal/examples/program"
	"github.com/bobnet-go/bobnet/internal/userfile"
	"github.com/bobnet-go/bobnet/metrics"
	"github.com/bobnet-go/bobnet/mplite"
)

var (
	in    = flag.String("in", "", "PNG `FILE` to start from; empty for the embedded picture")
	out   = flag.String("out", "heat.png", "PNG `FILE` to write the result to; empty for none")
	steps = flag.Int("steps", heat.DefaultSteps, "steps to compute")
	check = flag.Bool("check", true, "compare with a serial run, bit for bit")
	addr  = program.MetricsFlag()
)

var about = program.About{
	Name: "heat",
	Does: `Heat lets heat diffuse through a plate that is divided among ranks, which exchange the
edges of their parts by MPLite at every step. It also runs alone, as a job of one rank.`,
	Ranks: 4,
	Args:  "-out heat.png",
}

func main() { about.Main(checkFlags, run) }

// checkFlags validates the flags.
func checkFlags() error {
	if *steps < 1 {
		return fmt.Errorf("-steps %d: want at least one step", *steps)
	}
	return nil
}

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
	cfg := heat.Config{Steps: *steps, Progress: show}
	if comm.Rank() == 0 {
		if err := userfile.Check(*out); err != nil {
			return err
		}
		if cfg.Initial, err = load(*in); err != nil {
			return err
		}
	}
	res, err := heat.Run(ctx, comm, cfg)
	if err != nil {
		return err
	}
	if err := comm.Finalize(ctx); err != nil {
		return err
	}
	signal.Reset(os.Interrupt) // no rank waits for this one any more: an interrupt may end it
	if res.Grid == nil {
		return nil // not rank 0
	}
	return finish(cfg, res)
}

// finish handles the result at rank 0.
func finish(cfg heat.Config, res heat.Result) error {
	g := res.Grid
	fmt.Fprintf(program.Stdout, "%dx%d cells in %dx%d blocks, one a rank: %d steps in %v, of which rank 0 waited %v\n",
		g.Width, g.Height, res.Across, res.Down, cfg.Steps, res.Elapsed.Round(time.Millisecond), res.Waited.Round(time.Millisecond))
	if *out != "" {
		if err := heat.WriteFile(*out, g.Render()); err != nil {
			return err
		}
		fmt.Fprintln(program.Stdout, "result in", *out)
	}
	if !*check {
		return nil
	}
	cfg.Progress = nil
	start := time.Now()
	alone, err := heat.Serial(cfg)
	if err != nil {
		return err
	}
	if err := g.Equal(alone); err != nil {
		return fmt.Errorf("the result differs from that of a serial run: %w", err)
	}
	fmt.Fprintf(program.Stdout, "a serial run (%v) gives the same, bit for bit\n", time.Since(start).Round(time.Millisecond))
	return nil
}

func load(name string) (*heat.Grid, error) {
	if name == "" {
		return heat.Default()
	}
	return heat.ReadFile(name)
}

func show(p heat.Progress) {
	fmt.Fprintf(program.Stdout, "step %*d of %d: mean temperature %.4f\n", len(fmt.Sprint(p.Steps)), p.Step, p.Steps, p.Mean)
}
