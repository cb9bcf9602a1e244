package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"

	"github.com/bobnet-go/bobnet/internal/examples/cg"
	"github.com/bobnet-go/bobnet/internal/examples/cholesky"
	"github.com/bobnet-go/bobnet/internal/examples/em3d"
	"github.com/bobnet-go/bobnet/internal/examples/fft3d"
	"github.com/bobnet-go/bobnet/internal/examples/raytrace"
	"github.com/bobnet-go/bobnet/internal/lab"
	"github.com/bobnet-go/bobnet/internal/perf"
	"github.com/bobnet-go/bobnet/internal/plot"
	"github.com/bobnet-go/bobnet/internal/userfile"
	"github.com/bobnet-go/bobnet/splitc"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// appsFlags lists the flags of perf that are valid with --apps.
var appsFlags = []string{"apps", "layer", "ranks", "per-host", "rounds", "json", "plot"}

// appRun is one run of an application, or the median of several runs. The JSON names are those of
// the applications' own reports.
type appRun struct {
	App     string  `json:"app"`
	Size    string  `json:"size"`
	Layer   string  `json:"layer"`
	Ranks   int     `json:"ranks"`
	PerHost int     `json:"per_host"`
	Crowded bool    `json:"crowded"` // more ranks than processors of this host
	Seconds float64 `json:"seconds"`
	Compute float64 `json:"compute_seconds"`
	Wait    float64 `json:"wait_seconds"`
	SpeedUp float64 `json:"speed_up"` // over the run of one process, without a layer
	Runs    int     `json:"runs"`

	Phases  json.RawMessage `json:"phases,omitempty"`  // time of each phase, mean and maximum of all ranks
	Traffic json.RawMessage `json:"traffic,omitempty"` // operations and bytes of gets, puts and stores, of all ranks together
}

// alone is the layer of a run with one process.
const alone = "-"

// checkApps rejects flags that are invalid with --apps.
func (c *perfCall) checkApps(cmd *cobra.Command) error {
	var wrong error
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Changed && !slices.Contains(appsFlags, f.Name) {
			wrong = fmt.Errorf("--%s has no meaning with --apps", f.Name)
		}
	})
	if wrong != nil {
		return wrong
	}
	if slices.Contains(c.apps, allApps) {
		c.apps = appNames()
	}
	if !cmd.Flags().Changed("rounds") {
		c.plan.Rounds = 1
	}
	if len(c.plan.Layers) == 0 {
		c.plan.Layers = perf.Layers
	}
	return c.plan.Validate()
}

// runApps runs the applications by layer and ranks, each case once per round. It prints the median
// of each case as soon as it is known. After an interrupt it prints the results so far.
func (c *perfCall) runApps(ctx context.Context, out, errOut io.Writer) error {
	if err := lab.ReexecIfNeeded(); err != nil {
		return err
	}
	cases := c.appCases()
	runs := make([][]appRun, len(cases))
	table := appTable{out: out, json: c.json}
	show := newProgress(errOut)
	var failures []error
	for n := range c.plan.Rounds * len(cases) {
		i := n % len(cases)
		r, err := c.runApp(ctx, errOut, cases[i])
		if show.end(); ctx.Err() != nil {
			return errors.Join(ctx.Err(), table.writeNew(medians(runs)), table.end())
		}
		if err != nil {
			failures = append(failures, fmt.Errorf("%s on %d ranks, layer %s: %w", cases[i].App, cases[i].Ranks, cases[i].Layer, err))
		} else {
			runs[i] = append(runs[i], r)
		}
		if n >= (c.plan.Rounds-1)*len(cases) { // the last round
			if err := table.writeNew(medians(runs[:i+1])); err != nil {
				return err
			}
		}
		show.step(n+1, len(cases)*c.plan.Rounds)
	}
	show.end()
	return errors.Join(append(failures, table.end(), c.drawApps(medians(runs)))...)
}

// appCases returns the cases to run: each application with one process, as the base of the
// speed-up, and then by layer and ranks.
func (c *perfCall) appCases() (cases []appRun) {
	for _, name := range c.apps {
		cases = append(cases, appRun{App: name, Layer: alone, Ranks: 1})
		for _, layer := range c.plan.Layers {
			for _, n := range c.ranks {
				if n > 1 {
					cases = append(cases, appRun{App: name, Layer: layer, Ranks: n})
				}
			}
		}
	}
	return cases
}

// runApp runs a case in a new lab.
func (c *perfCall) runApp(ctx context.Context, errOut io.Writer, k appRun) (r appRun, err error) {
	perHost := min(c.perHost, k.Ranks)
	free, err := lab.Processors()
	if err != nil {
		return r, err
	}
	l, err := lab.New(ctx, lab.Config{N: k.Ranks, PerHost: perHost, Bind: k.Ranks <= len(free)})
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	defer passQuit(l)()
	self, err := os.Executable()
	if err != nil {
		return r, fmt.Errorf("find this program's file: %w", err)
	}
	argv := []string{self, "perf", "app", k.App}
	if k.Layer != alone {
		argv = append(argv, "--layer", k.Layer)
	}
	var said bytes.Buffer
	if err := l.Run(ctx, argv, lab.RunOptions{Stdout: &said, Stderr: errOut}); err != nil {
		return r, err
	}
	if err := json.Unmarshal(said.Bytes(), &r); err != nil {
		return r, fmt.Errorf("parse report of rank 0 %q: %w", said.String(), err)
	}
	r.Layer, r.PerHost = k.Layer, perHost
	return r, nil
}

// medians returns the median run of each case, by time, with its speed-up. If the work of an
// application grows with the ranks, its speed-up counts the larger work.
func medians(runs [][]appRun) (results []appRun) {
	single := map[string]float64{}
	for _, of := range runs {
		if len(of) == 0 {
			continue
		}
		slices.SortFunc(of, func(a, b appRun) int { return cmp.Compare(a.Seconds, b.Seconds) })
		r := of[len(of)/2]
		r.Runs = len(of)
		if r.Ranks == 1 {
			single[r.App] = r.Seconds
		}
		if work := applications[r.App]; r.Seconds > 0 && work != nil {
			r.SpeedUp = single[r.App] / r.Seconds
			if work.scales {
				r.SpeedUp *= float64(r.Ranks)
			}
		}
		results = append(results, r)
	}
	return results
}

// appTable writes results as they become known: as rows of a table, or as lines of JSON.
type appTable struct {
	out     io.Writer
	json    bool
	written int  // number of written results
	crowded bool // one of them has more ranks than processors
}

// appRow is the format of a row.
const appRow = "%12s  %10s  %5s  %8s  %9s  %8s  %8s\n"

// writeNew writes the results that are not yet written.
func (t *appTable) writeNew(results []appRun) error {
	for ; t.written < len(results); t.written++ {
		if err := t.write(results[t.written]); err != nil {
			return err
		}
	}
	return nil
}

func (t *appTable) write(r appRun) error {
	if t.json {
		return json.NewEncoder(t.out).Encode(r)
	}
	if t.written == 0 {
		if _, err := fmt.Fprintf(t.out, appRow, "application", "layer", "ranks", "seconds", "computing", "waiting", "speed-up"); err != nil {
			return err
		}
	}
	ranks := strconv.Itoa(r.Ranks)
	if r.Crowded {
		t.crowded = true
		ranks = "*" + ranks
	}
	fixed := func(v float64, digits int) string { return strconv.FormatFloat(v, 'f', digits, 64) }
	_, err := fmt.Fprintf(t.out, appRow, r.App, r.Layer, ranks, fixed(r.Seconds, 3), fixed(r.Compute, 3), fixed(r.Wait, 3), fixed(r.SpeedUp, 2))
	return err
}

// end explains the marks in the table.
func (t *appTable) end() error {
	if !t.crowded {
		return nil
	}
	_, err := fmt.Fprintln(t.out, "* more ranks than processors of this host: the ranks wait for processors as well as for each other")
	return err
}

// drawApps draws the speed-up by ranks, in a panel for each application.
func (c *perfCall) drawApps(results []appRun) error {
	if c.plot == "" || len(results) == 0 {
		return nil
	}
	panels := c.appPanels(results)
	if len(panels) == 0 {
		return errors.New("--plot: nothing to draw: no application ran on more than one rank")
	}
	f, err := userfile.Create(c.plot)
	if err != nil {
		return fmt.Errorf("--plot: %w", err)
	}
	return errors.Join(plot.WritePNG(f, panels...), f.Close())
}

// appPanels returns the panels to draw. It marks points with more ranks than processors.
func (c *perfCall) appPanels(results []appRun) (panels []plot.Panel) {
	x, crowded := "processes", map[float64]bool{}
	for _, r := range results {
		if r.Crowded {
			x, crowded[float64(r.Ranks)] = "processes; a cross: more than processors", true
		}
	}
	for _, name := range c.apps {
		p := plot.Panel{Title: name, X: x, Y: "speed-up"}
		for _, layer := range c.plan.Layers {
			s := plot.Series{Name: layer, Marked: func(p plot.Point) bool { return crowded[p.X] }}
			for _, r := range results {
				if r.App == name && r.SpeedUp > 0 && (r.Layer == layer || r.Ranks == 1) {
					s.Points = append(s.Points, plot.Point{X: float64(r.Ranks), Value: r.SpeedUp})
				}
			}
			if len(s.Points) > 1 { // the first is that of one process
				p.Series = append(p.Series, s)
			}
		}
		if len(p.Series) > 0 {
			panels = append(panels, p)
		}
	}
	return panels
}

// reporter is the report of an application.
type reporter interface{ JSON(w io.Writer) error }

// application is a program that perf --apps measures, with the paper's sizes.
type application struct {
	scales bool // the work grows with the ranks
	run    func(ctx context.Context, w *splitc.World) (reporter, error)
}

// allApps selects all applications.
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

// newPerfAppCmd returns the hidden verb that each rank of perf --apps runs.
func newPerfAppCmd() *cobra.Command {
	var layer string
	cmd := &cobra.Command{
		Use:    "app NAME",
		Short:  "Run one of the processes of perf --apps",
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

// perfApp runs an application as one rank. Rank 0 prints the report.
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
