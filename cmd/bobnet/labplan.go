package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/bobnet-go/bobnet/internal/plot"
	"github.com/bobnet-go/bobnet/internal/scale"
	"github.com/bobnet-go/bobnet/internal/userfile"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const labPlan = `With --plan no command runs. The lab simulates a job of MPLite for each number of ranks, on one
segment with links of 10 Gbit/s and a delay of 2 us from host to host. It prints a table in
Markdown: the time from the first Init to the end of the last one, the frames and broadcasts that
a rank sends until then, the largest number of connections of a rank, the memory of a rank, and
the times of collectives: of the first call, which makes connections, and of the second call.
Times are virtual, and do not include processor time. --plot draws the table.`

// planCall is a call of bobnet lab --plan.
type planCall struct {
	ranks []int
	plot  string
}

// flags adds the flags of the plan.
func (p *planCall) flags(cmd *cobra.Command) {
	cmd.Flags().Var(numbers(&p.ranks, nil, scale.MinRanks, scale.MaxRanks), "plan", "print what a job of so many ranks costs, by simulation, instead of running CMD: 64,256")
	cmd.Flags().Var(output(&p.plot, ""), "plot", "with --plan, draw the costs into this `FILE` (PNG)")
}

// args checks the arguments of a call: a command, unless it is for a plan.
func (p *planCall) args(cmd *cobra.Command, args []string) error {
	if len(p.ranks) > 0 {
		return noArgs(cmd, args)
	}
	return wants("command to run")(cmd, args)
}

// check rejects flags that exclude each other.
func (p *planCall) check(cmd *cobra.Command) (err error) {
	if len(p.ranks) == 0 {
		if p.plot != "" {
			return usageError{errors.New("lab: --plot draws what --plan measures: name the numbers of ranks by --plan")}
		}
		return nil
	}
	cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		if f.Changed && f.Name != "plan" && f.Name != "plot" && err == nil {
			err = usageError{fmt.Errorf("lab: --plan simulates a segment of its own: leave out --%s", f.Name)}
		}
	})
	return err
}

// run measures and prints.
func (p *planCall) run(ctx context.Context, stdout, stderr io.Writer) error {
	slices.Sort(p.ranks)
	p.ranks = slices.Compact(p.ranks)
	bar := newProgress(stderr)
	defer bar.end()
	var costs []scale.Cost
	for i, ranks := range p.ranks {
		bar.step(i, len(p.ranks), ranks, " ranks")
		cost, err := scale.Measure(ctx, ranks)
		if err != nil {
			return fmt.Errorf("lab: plan of %d ranks: %w", ranks, err)
		}
		costs = append(costs, cost)
	}
	bar.end()
	if err := scale.WriteTable(stdout, costs); err != nil || p.plot == "" {
		return err
	}
	var picture bytes.Buffer
	if err := plot.WritePNG(&picture, scale.Panels(costs)...); err != nil {
		return err
	}
	return userfile.Write(p.plot, picture.Bytes(), 0o644)
}
