package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/bobnet-go/bobnet/internal/lab"
	"github.com/bobnet-go/bobnet/internal/perf"
	"github.com/bobnet-go/bobnet/mplite"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// collFlags lists the flags of perf that are valid with --collectives.
var collFlags = []string{"collectives", "ranks", "sizes", "mtu", "topology", "rounds", "sample", "json"}

// allCollectives selects all collectives.
const allCollectives = "all"

// checkCollectives rejects flags that are invalid with --collectives.
func (c *perfCall) checkCollectives(cmd *cobra.Command) error {
	var wrong error
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Changed && !slices.Contains(collFlags, f.Name) {
			wrong = fmt.Errorf("--%s has no meaning with --collectives", f.Name)
		}
	})
	if wrong != nil {
		return wrong
	}
	if slices.Contains(c.collectives, allCollectives) {
		c.collectives = nil
	}
	p := perf.CollPlan{Names: c.collectives, Sizes: c.plan.Sizes, MTUs: c.plan.MTUs}
	if cmd.Flags().Changed("ranks") {
		p.Ranks = c.ranks
	}
	if cmd.Flags().Changed("topology") {
		p.Topologies = []string{c.topology}
	}
	if cmd.Flags().Changed("rounds") {
		p.Rounds = c.plan.Rounds
	}
	if cmd.Flags().Changed("sample") {
		p.Sample = c.plan.Sample
	}
	c.coll = &p
	return p.Validate()
}

// runCollectives measures the collectives of mplite, and those of the MPI library of mpicc, if there
// is one.
func (c *perfCall) runCollectives(ctx context.Context, out, errOut io.Writer) error {
	if err := lab.ReexecIfNeeded(); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program's file: %w", err)
	}
	dir, err := os.MkdirTemp("", "bobnet-perf-")
	if err != nil {
		return fmt.Errorf("create a directory for the C program: %w", err)
	}
	defer os.RemoveAll(dir)
	cfg := perf.CollConfig{Rank: []string{self, "perf", "collective"}, Lab: passQuit, Stderr: errOut}
	if cfg.MPI, err = perf.BuildMPI(ctx, dir); err != nil {
		fmt.Fprintf(errOut, "no MPI library measured: %v\n", err)
	}
	show := newProgress(errOut)
	cfg.Progress = func(done, total int, what string) { show.step(done, total, what) }
	records, err := perf.Collectives(ctx, *c.coll, cfg)
	show.end()
	return errors.Join(c.printCollectives(out, records), err)
}

func (c *perfCall) printCollectives(out io.Writer, records []perf.CollRecord) error {
	if !c.json {
		return perf.WriteCollectives(out, records)
	}
	enc := json.NewEncoder(out)
	for _, r := range records {
		if err := enc.Encode(r); err != nil {
			return err
		}
	}
	return nil
}

// newPerfCollectiveCmd returns the hidden verb that each rank of perf --collectives runs.
func newPerfCollectiveCmd() *cobra.Command {
	return &cobra.Command{
		Use:    "collective MICROSECONDS NAMES SIZES",
		Short:  "Run one of the processes of perf --collectives",
		Hidden: true,
		Args:   usage(cobra.ExactArgs(3)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return perfCollective(cmd.Context(), args)
		},
	}
}

// perfCollective measures as one rank. Rank 0 prints the samples.
func perfCollective(ctx context.Context, args []string) error {
	watch, done, err := watchFor("")
	if err != nil {
		return err
	}
	defer done()
	comm, err := mplite.Init(ctx, nil)
	if err != nil {
		return err
	}
	defer watch(perf.Opened{NIC: comm.NIC(), Comm: comm})()
	if err := perf.RunCollectives(ctx, comm, args, os.Stdout); err != nil {
		return err
	}
	return comm.Finalize(ctx)
}
