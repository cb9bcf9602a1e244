package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/examples/heat"
	"github.com/bobnet-go/bobnet/internal/lab"
	"github.com/bobnet-go/bobnet/internal/perf"
	"github.com/bobnet-go/bobnet/internal/userfile"
	"github.com/bobnet-go/bobnet/metrics"
	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/spf13/cobra"
)

const demoLong = `Demonstrate Bobnet on this machine. The demo creates network namespaces, joins
them by veth and a bridge, and runs one process for each processor. The processes
share a picture, let heat diffuse through it, and exchange edges by MPLite over raw
Ethernet frames. The demo compares the result bit for bit with a serial run. Then it
measures raw frames, VIs, MPLite and TCP on one veth pair, and draws the results.

It runs as root, or in an unprivileged user namespace where the system allows
that. With the default --ranks and --steps it takes about --time on an idle
machine. It leaves only two pictures behind. Close other programs first: two busy
processors halve every figure.`

// demoCall is a call of `bobnet demo`.
type demoCall struct {
	picture string
	ranks   int
	mtu     int
	steps   int
	out     string
	time    time.Duration
}

// Where the pictures go in demoCall.out.
const (
	demoHeat = "heat.png"
	demoPerf = "perf.png"
)

// maxDemoRanks bounds how long a run takes, because all ranks share this machine's processors.
const maxDemoRanks = 64

// maxDemoSteps also bounds how long a run takes.
const maxDemoSteps = 1_000_000

// usualDemoRanks is the most ranks that the demo starts by default. With more, the parts of the
// picture get too small.
const usualDemoRanks = 8

// minDemoTime is the shortest demo: about a second for the heat and its check, demoTableTime with
// the start of the programs, and a sample of the first sizes of the plot.
const minDemoTime = 5 * time.Second

// demoTableTime is how long the table is measured, so that it appears a few seconds after the
// start. The rest of demoCall.time goes to the plot.
const demoTableTime = 2200 * time.Millisecond

// demoSample is the length of a sample of the table, and the shortest length of a sample of the plot.
const demoSample = 10 * time.Millisecond

// minPlotTime is how long the plot is measured if the heat and the table have used up
// demoCall.time, because the machine is busy or the heat has many steps.
const minPlotTime = time.Second

func newDemoCmd() *cobra.Command {
	var call demoCall
	cmd := &cobra.Command{
		Use:     "demo",
		Short:   "Run a program on several ranks and compare Bobnet with TCP",
		Long:    demoLong,
		Example: "  bobnet demo\n  bobnet demo --png photo.png --ranks 6 --out pictures",
		Args:    usage(noArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return call.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.Var(input(&call.picture), "png", "PNG `FILE` whose brightness is the initial temperature (default an embedded one)")
	f.Var(number(&call.ranks, defaultDemoRanks(), 1, maxDemoRanks), "ranks", "processes that share the work (default one for each processor, 2 to 8)")
	f.Var(number(&call.steps, 2000, 1, maxDemoSteps), "steps", "steps of diffusion")
	f.Var(number(&call.mtu, ethertype.MaxMTU, vipl.MinMTU, ethertype.MaxMTU), "mtu", "MTU of every link in bytes")
	f.Var(period(&call.time, 15*time.Second, minDemoTime, time.Hour), "time", "how long the demo takes; the plot gets the time that heat and table leave")
	f.Var(folder(&call.out, "out"), "out", "`directory` to write the pictures to")
	f.Lookup("ranks").DefValue = "0" // the help text describes the default, which depends on the machine
	cmd.AddCommand(newDemoRankCmd())
	return cmd
}

// defaultDemoRanks is one rank for each processor that this process may use, within bounds.
func defaultDemoRanks() int { return min(max(runtime.NumCPU(), 2), usualDemoRanks) }

func (c *demoCall) run(ctx context.Context, out, errOut io.Writer) error {
	if err := lab.ReexecIfNeeded(); err != nil {
		return err
	}
	if _, err := readPlate(c.picture); err != nil { // fail before rank 0 does
		return err
	}
	if err := os.MkdirAll(c.out, 0o755); err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	start := time.Now()
	if err := c.heat(ctx, out, errOut); err != nil {
		return err
	}
	if err := c.measure(ctx, start.Add(c.time), out, errOut); err != nil {
		return err
	}
	fmt.Fprintf(out, "%s  the plate after %d steps\n", filepath.Join(c.out, demoHeat), c.steps)
	fmt.Fprintf(out, "%s  one-way time and bandwidth over message size\n", filepath.Join(c.out, demoPerf))
	fmt.Fprintf(out, "All in %v. The namespaces are gone.\n", time.Since(start).Round(time.Second/10))
	return nil
}

// heat runs the heat example as ranks of a lab.
func (c *demoCall) heat(ctx context.Context, out, errOut io.Writer) error {
	fmt.Fprintf(out, "Heat on %d ranks: a network namespace each, joined by veth and a bridge, MTU %d,\n", c.ranks, c.mtu)
	fmt.Fprintf(out, "MPLite over frames of EtherType 0x%04X. No TCP/IP.\n", uint16(ethertype.Default))
	if n := runtime.NumCPU(); c.ranks > n {
		fmt.Fprintf(out, "The %d ranks take turns on %d processors, so they cannot be %d times as fast as one.\n", c.ranks, n, c.ranks)
	}
	l, err := lab.New(ctx, lab.Config{N: c.ranks, MTU: c.mtu, Topology: lab.Bridge})
	if err != nil {
		return err
	}
	defer l.Close()
	defer passQuit(l)()
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("demo: find this program's file: %w", err)
	}
	screen := &heatScreen{out: out, bar: newProgress(errOut), ranks: c.ranks}
	argv := []string{self, "demo", "rank", "--steps", fmt.Sprint(c.steps), "--out", filepath.Join(c.out, demoHeat)}
	if c.picture != "" {
		argv = append(argv, "--png", c.picture)
	}
	load := watchLoad()
	err = l.Run(ctx, argv, lab.RunOptions{Stdout: screen, Stderr: errOut})
	screen.bar.end()
	load.report(out)
	return err
}

// demoSizes are the points of the plot, in bytes. They are measured in this order, which gives a
// plot of the whole range if the time ends before the last.
var demoSizes = []int{64, 1 << 20, 1 << 12, 1 << 16, 1 << 8, 1 << 18, 1 << 10, 1 << 14}

// measure prints the table and draws the plot. The demo ends about at end.
func (c *demoCall) measure(ctx context.Context, end time.Time, out, errOut io.Writer) error {
	fmt.Fprintln(out, "\nThe stacks on one veth pair, in turns, by two processes (vipl and mplite: reliable delivery):")
	common := perf.Plan{Stacks: []string{"raw", "vipl", "mplite", "tcp"}, MTUs: []int{c.mtu}, Levels: []string{"delivery"}, Sample: demoSample}

	table := common
	table.Rounds, table.Limit = 5, demoTableTime
	table.Tests = []string{perf.Latency, perf.Bandwidth, perf.Rate}
	load := watchLoad()
	records, err := c.perf(ctx, table, errOut, "table")
	if err != nil {
		return err
	}
	if err := perf.WriteSummary(out, records); err != nil {
		return err
	}
	explainBlocking(out, records)
	load.report(out)

	curves := plotPlan(common, time.Until(end))
	points, err := c.perf(ctx, curves, errOut, "plot")
	if err != nil {
		return err
	}
	return c.draw(plotted(points, records))
}

// plotRounds is the number of samples of each point of the plot if there is time for all.
const plotRounds = 9

// plotPlan returns the measurements of the plot, which take about as long as left. Each sample takes
// at least its length, so the samples become longer instead of ending early.
func plotPlan(plan perf.Plan, left time.Duration) perf.Plan {
	plan.Rounds, plan.Limit, plan.Strict = plotRounds, max(left, minPlotTime), true
	plan.Sizes = demoSizes
	plan.Tests = []string{perf.Latency, perf.Bandwidth}
	plan.Waits = []string{perf.Spin}
	samples := (plotRounds - 1) * len(plan.Cases(plan.MTUs[0])) // one round fewer, because a sample may be a little too short
	plan.Sample = max(plan.Limit/time.Duration(samples), demoSample)
	return plan
}

// plotted returns the points of the plot in order of size. If there was no time to measure a point
// for the plot, it takes the table's, so that there is always something to draw.
func plotted(points, table []perf.Record) []perf.Record {
	for _, r := range table {
		inPlot := r.Wait == perf.Spin || r.Stack == "tcp"
		measured := slices.ContainsFunc(points, func(p perf.Record) bool { return p.Case == r.Case })
		if inPlot && !measured {
			points = append(points, r)
		}
	}
	slices.SortStableFunc(points, func(a, b perf.Record) int { return cmp.Compare(a.Size, b.Size) })
	return points
}

// explainBlocking prints why a blocking row is slower than TCP, if one is.
func explainBlocking(out io.Writer, records []perf.Record) {
	if blockingSlower(records, perf.Latency, func(r perf.Record) float64 { return -r.P50 }) {
		fmt.Fprintln(out, blockingNote)
	}
	if blockingSlower(records, perf.Bandwidth, func(r perf.Record) float64 { return r.Mbits }) ||
		blockingSlower(records, perf.Rate, func(r perf.Record) float64 { return r.Rate }) {
		fmt.Fprintln(out, blockingStreamNote)
	}
}

// blockingSlower reports whether a blocking row of another stack is worse than TCP in a test. good
// returns a figure of which more is better.
func blockingSlower(records []perf.Record, test string, good func(perf.Record) float64) bool {
	tcp := slices.IndexFunc(records, func(r perf.Record) bool { return r.Test == test && r.Stack == "tcp" })
	return tcp >= 0 && slices.ContainsFunc(records, func(r perf.Record) bool {
		return r.Test == test && r.Wait == perf.Block && r.Stack != "tcp" && good(r) < good(records[tcp])
	})
}

const blockingStreamNote = `Blocking rows of bandwidth and messages: the kernel acknowledges TCP's segments while the
programs sleep. Bobnet's programs acknowledge themselves, so frames must wake them first.`

const blockingNote = `Blocking rows: a thread sleeps until a frame wakes it. That wake-up is most of the time of a
short message, over TCP as well, so there is little to gain. By default a wait of Bobnet spins
for up to 50 µs before it blocks.`

// perf measures a plan. It prints the cases that could not be measured, and returns an error only if
// there are no others.
func (c *demoCall) perf(ctx context.Context, plan perf.Plan, errOut io.Writer, what string) ([]perf.Record, error) {
	half, _, err := perfProcesses()
	if err != nil {
		return nil, err
	}
	show, start := newProgress(errOut), time.Now()
	show.unit = " ms"
	cfg := perf.LocalConfig{Half: half, Progress: func(_, _ int, last perf.Case) { // the time ends the plan, not the number of samples
		limit := plan.Limit.Milliseconds()
		show.step(int(min(time.Since(start).Milliseconds(), limit)), int(limit), last)
	}}
	cfg.Lab = func(l *lab.Lab, _ [2]int) (env [2][]string, done func(), err error) { return env, passQuit(l), nil }
	records, err := perf.Local(ctx, plan, cfg)
	show.end()
	if err != nil && (len(records) == 0 || ctx.Err() != nil) {
		return nil, err
	}
	if err != nil {
		fmt.Fprintf(errOut, "missing in the %s: %v\n", what, err)
	}
	return records, nil
}

func (c *demoCall) draw(records []perf.Record) error {
	f, err := userfile.Create(filepath.Join(c.out, demoPerf))
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	return errors.Join(perf.WritePlot(f, records), f.Close())
}

// heatEvent is a line that rank 0 of the demo writes for heatScreen.
type heatEvent struct {
	Step, Steps   int           `json:",omitzero"`
	Width, Height int           `json:",omitzero"`
	Across, Down  int           `json:",omitzero"`
	Elapsed       time.Duration `json:",omitzero"`
	Waited        time.Duration `json:",omitzero"`
	Serial        time.Duration `json:",omitzero"` // how long the check took; it passed
}

// heatScreen displays the events of rank 0.
type heatScreen struct {
	out   io.Writer
	bar   *progress
	ranks int
	took  time.Duration // by the ranks together
	rest  []byte        // of a line that has not ended
}

// Write is part of io.Writer.
func (s *heatScreen) Write(p []byte) (int, error) {
	s.rest = append(s.rest, p...)
	for {
		line, rest, whole := bytes.Cut(s.rest, []byte{'\n'})
		if !whole {
			return len(p), nil
		}
		s.rest = rest
		var e heatEvent
		if err := json.Unmarshal(line, &e); err != nil {
			return 0, fmt.Errorf("demo: parse event of rank 0 %q: %w", line, err)
		}
		s.show(e)
	}
}

func (s *heatScreen) show(e heatEvent) {
	switch {
	case e.Serial > 0:
		s.bar.end()
		fmt.Fprintf(s.out, "A serial run (%v) gives the same, bit for bit: %d ranks are %.2f times as fast.\n",
			e.Serial.Round(time.Millisecond), s.ranks, e.Serial.Seconds()/s.took.Seconds())
	case e.Elapsed > 0:
		s.bar.end()
		s.took = e.Elapsed
		fmt.Fprintf(s.out, "%dx%d cells in %dx%d blocks: %d steps in %v, of which rank 0 waited %v for its neighbours.\n",
			e.Width, e.Height, e.Across, e.Down, e.Steps, e.Elapsed.Round(time.Millisecond), e.Waited.Round(time.Millisecond))
	default:
		s.bar.step(e.Step, e.Steps)
	}
}

// newDemoRankCmd returns the hidden verb that each rank of the demo runs.
func newDemoRankCmd() *cobra.Command {
	var (
		cfg     heat.Config
		picture string
		out     string
	)
	cmd := &cobra.Command{
		Use:    "rank",
		Short:  "Run one of the processes of the demo",
		Hidden: true,
		Args:   usage(noArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return demoRank(cmd.Context(), cfg, picture, out)
		},
	}
	cmd.Flags().Var(number(&cfg.Steps, 0, 1, maxDemoSteps), "steps", "steps of diffusion")
	cmd.Flags().Var(input(&picture), "png", "PNG `FILE` to start from")
	cmd.Flags().Var(output(&out, ""), "out", "PNG `FILE` to write")
	return cmd
}

// demoRank runs one rank of the demo. Rank 0 also reads the picture, writes the result and checks it.
func demoRank(ctx context.Context, cfg heat.Config, picture, out string) (err error) {
	comm, err := mplite.Init(ctx, nil)
	if err != nil {
		return err
	}
	collector := metrics.NewCollector(nil)
	collector.WatchRank(comm)
	defer collector.DumpOnQuit(os.Stderr)()
	defer collector.AnswerAgent()()
	enc := json.NewEncoder(stdout)
	if comm.Rank() == 0 {
		if cfg.Initial, err = readPlate(picture); err != nil {
			return err
		}
		cfg.Progress = func(p heat.Progress) { enc.Encode(heatEvent{Step: p.Step, Steps: p.Steps}) }
	}
	res, err := heat.Run(ctx, comm, cfg)
	if err != nil {
		return err
	}
	if err := comm.Finalize(ctx); err != nil || res.Grid == nil {
		return err
	}
	err = enc.Encode(heatEvent{Width: res.Grid.Width, Height: res.Grid.Height, Steps: cfg.Steps,
		Across: res.Across, Down: res.Down, Elapsed: res.Elapsed, Waited: res.Waited})
	if err != nil {
		return err
	}
	if err := heat.WriteFile(out, res.Grid.Render()); err != nil {
		return err
	}
	return checkPlate(cfg, res.Grid, enc)
}

func readPlate(name string) (*heat.Grid, error) {
	if name == "" {
		return heat.Default()
	}
	plate, err := heat.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("demo: %w", err)
	}
	return plate, nil
}

// checkPlate compares the result with that of a serial run.
func checkPlate(cfg heat.Config, got *heat.Grid, enc *json.Encoder) error {
	start := time.Now()
	cfg.Progress = nil
	want, err := heat.Serial(cfg)
	if err != nil {
		return err
	}
	if err := got.Equal(want); err != nil {
		return fmt.Errorf("demo: the parallel result differs from that of a serial run: %w", err)
	}
	return enc.Encode(heatEvent{Serial: time.Since(start)})
}
