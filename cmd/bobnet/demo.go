package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/lab"
	"github.com/bobnet-go/bobnet/internal/perf"
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/spf13/cobra"
)

const demoLong = `Show what Bobnet does, on this machine alone: make network namespaces, join them
by veth and a bridge, let heat diffuse through a picture that is divided among
as many processes, which exchange edges by MPLite over raw Ethernet frames, and
compare the result bit for bit with a serial run. Then measure raw frames, VIs,
MPLite and TCP on one veth pair, and draw what was measured.

It runs as root, or in an unprivileged user namespace where the system allows
that, takes well under a minute, and leaves nothing behind but two pictures.`

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

// maxDemoRanks is a limit of patience: they share this machine's cores.
const maxDemoRanks = 64

// maxDemoSteps is a limit of patience, too.
const maxDemoSteps = 1_000_000

func newDemoCmd() *cobra.Command {
	var call demoCall
	cmd := &cobra.Command{
		Use:     "demo",
		Short:   "Show it all on this machine: a program on 4 ranks, and what it gains over TCP",
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
	f.Var(number(&call.ranks, 4, 1, maxDemoRanks), "ranks", "processes that share the work")
	f.Var(number(&call.steps, 2000, 1, maxDemoSteps), "steps", "steps of diffusion")
	f.Var(number(&call.mtu, ethertype.MaxMTU, vipl.MinMTU, ethertype.MaxMTU), "mtu", "MTU of every link in bytes")
	f.Var(period(&call.time, 30*time.Second, 100*time.Millisecond, time.Hour), "time", "about how long to measure")
	f.Var(folder(&call.out, "out"), "out", "`directory` to write the pictures to")
	cmd.AddCommand(newDemoRankCmd())
	return cmd
}

func (c *demoCall) run(ctx context.Context, out, errOut io.Writer) error {
	if err := lab.ReexecIfNeeded(); err != nil {
		return err
	}
	if _, err := readPlate(c.picture); err != nil { // rather than when rank 0 does
		return err
	}
	if err := os.MkdirAll(c.out, 0o755); err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	start := time.Now()
	if err := c.heat(ctx, out, errOut); err != nil {
		return err
	}
	if err := c.measure(ctx, out, errOut); err != nil {
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
	l, err := lab.New(ctx, lab.Config{N: c.ranks, MTU: c.mtu, Topology: lab.Bridge})
	if err != nil {
		return err
	}
	defer l.Close()
	defer passQuit(l)()
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("demo: finding this program's file: %w", err)
	}
	screen := &heatScreen{out: out, bar: newProgress(errOut)}
	argv := []string{self, "demo", "rank", "--steps", fmt.Sprint(c.steps), "--out", filepath.Join(c.out, demoHeat)}
	if c.picture != "" {
		argv = append(argv, "--png", c.picture)
	}
	err = l.Run(ctx, argv, lab.RunOptions{Stdout: screen, Stderr: errOut})
	screen.bar.end()
	return err
}

// demoSizes are the points of the plot, in bytes.
var demoSizes = []int{64, 256, 1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 20}

// measure prints the table and draws the plot.
func (c *demoCall) measure(ctx context.Context, out, errOut io.Writer) error {
	fmt.Fprintln(out, "\nThe stacks on one veth pair, in turns, by two processes (vipl and mplite: reliable delivery):")
	stacks := []string{"raw", "vipl", "mplite", "tcp"}
	common := perf.Plan{Stacks: stacks, MTUs: []int{c.mtu}, Levels: []string{"delivery"}}
	table, curves := common, common
	table.Rounds, table.Limit = 7, c.time/2
	table.Tests = []string{perf.Latency, perf.Bandwidth, perf.Rate}
	curves.Rounds, curves.Limit = 3, c.time/2
	curves.Sizes = demoSizes
	curves.Tests = []string{perf.Latency, perf.Bandwidth}
	curves.Waits = []string{perf.Spin}

	records, err := c.perf(ctx, table, errOut, "table")
	if err != nil {
		return err
	}
	if err := perf.WriteSummary(out, records); err != nil {
		return err
	}
	records, err = c.perf(ctx, curves, errOut, "plot")
	if err != nil {
		return err
	}
	return c.draw(records)
}

// perf measures a plan. Cases that could not be measured are named, and only
// if there is nothing else it is an error.
func (c *demoCall) perf(ctx context.Context, plan perf.Plan, errOut io.Writer, what string) ([]perf.Record, error) {
	half, err := perfHalf()
	if err != nil {
		return nil, err
	}
	show := newProgress(errOut)
	cfg := perf.LocalConfig{Half: half, Progress: show.sample}
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
	f, err := os.Create(filepath.Join(c.out, demoPerf))
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	return errors.Join(perf.WritePlot(f, records), f.Close())
}
