package main

import (
	"context"
	"io"
	"maps"
	"os"
	"slices"

	"github.com/bobnet-go/bobnet/internal/examples/cg"
	"github.com/bobnet-go/bobnet/internal/examples/cholesky"
	"github.com/bobnet-go/bobnet/internal/examples/em3d"
	"github.com/bobnet-go/bobnet/internal/examples/fft3d"
	"github.com/bobnet-go/bobnet/internal/examples/raytrace"
	"github.com/bobnet-go/bobnet/internal/perf"
	"github.com/bobnet-go/bobnet/splitc"
	"github.com/spf13/cobra"
)

// reporter is the report of an application.
type reporter interface{ JSON(w io.Writer) error }

// application is a program that perf --apps measures, with the sizes of the paper.
type application struct {
	scales bool // its work grows with the ranks
	run    func(ctx context.Context, w *splitc.World) (reporter, error)
}

// allApps stands for all of them.
const allApps = "all"

var applications = map[string]*application{
	"fft3d": {run: func(ctx context.Context, w *splitc.World) (reporter, error) {
		rep, _, err := fft3d.Run(ctx, w, fft3d.Config{N: fft3d.DefaultN, Seed: 1}, false)
		return rep, err
	}},
	"cg": {run: func(ctx context.Context, w *splitc.World) (reporter, error) {
		rep, _, err := cg.Run(ctx, w, cg.Config{N: cg.DefaultN, Row: cg.DefaultRow, Seed: 1, Tolerance: cg.DefaultTolerance, MaxSteps: cg.DefaultMaxSteps})
		return rep, err
	}},
	"cholesky": {run: func(ctx context.Context, w *splitc.World) (reporter, error) {
		rep, _, err := cholesky.Run(ctx, w, cholesky.Config{N: cholesky.DefaultN, Down: cholesky.DefaultDown, Over: cholesky.DefaultOver, Seed: 1}, false)
		return rep, err
	}},
	"em3d": {scales: true, run: func(ctx context.Context, w *splitc.World) (reporter, error) {
		rep, _, err := em3d.Run(ctx, w, em3d.Config{Particles: em3d.DefaultParticles, Degree: em3d.DefaultDegree, Remote: em3d.DefaultRemote, Steps: em3d.DefaultSteps, Seed: 1}, false)
		return rep, err
	}},
	"raytrace": {run: func(ctx context.Context, w *splitc.World) (reporter, error) {
		rep, _, err := raytrace.Run(ctx, w, raytrace.Config{Width: raytrace.DefaultWidth, Height: raytrace.DefaultHeight, Side: raytrace.DefaultSide, Grid: raytrace.DefaultGrid, Tile: raytrace.DefaultTile, Seed: 1})
		return rep, err
	}},
}

func appNames() []string { return slices.Sorted(maps.Keys(applications)) }

// newPerfAppCmd returns what each rank of perf --apps runs.
func newPerfAppCmd() *cobra.Command {
	var layer string
	cmd := &cobra.Command{
		Use:    "app NAME",
		Short:  "One of the processes that --apps starts",
		Hidden: true,
		Args:   usage(cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return perfApp(cmd.Context(), applications[args[0]], layer)
		},
		ValidArgs: appNames(),
	}
	cmd.Flags().Var(choice(&layer, "", perf.Layers...), "layer", "communication layer")
	return cmd
}

// perfApp takes part in a run, of which rank 0 reports.
func perfApp(ctx context.Context, app *application, layer string) error {
	watch, done, err := watchFor("")
	if err != nil {
		return err
	}
	defer done()
	w, err := splitc.Start(ctx, &splitc.Config{Layer: layer})
	if err != nil {
		return err
	}
	defer watch(perf.Opened{NIC: w.NIC(), World: w})()
	rep, err := app.run(ctx, w)
	if err != nil {
		w.Fail(err) // the other ranks learn why
		return err
	}
	if err := w.Exit(ctx); err != nil || w.MyProc() != 0 {
		return err
	}
	return rep.JSON(os.Stdout)
}
