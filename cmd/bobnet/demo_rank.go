package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/bobnet-go/bobnet/internal/examples/heat"
	"github.com/bobnet-go/bobnet/metrics"
	"github.com/bobnet-go/bobnet/mplite"
	"github.com/spf13/cobra"
)

// heatEvent is a line that rank 0 of the demo writes for heatScreen.
type heatEvent struct {
	Step, Steps   int           `json:",omitzero"`
	Width, Height int           `json:",omitzero"`
	Across, Down  int           `json:",omitzero"`
	Elapsed       time.Duration `json:",omitzero"`
	Waited        time.Duration `json:",omitzero"`
	Serial        time.Duration `json:",omitzero"` // how long the check took; it passed
}

// heatScreen shows the events of rank 0 to people.
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
			return 0, fmt.Errorf("demo: rank 0 said %q: %w", line, err)
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

// newDemoRankCmd returns what each rank of the demo runs.
func newDemoRankCmd() *cobra.Command {
	var (
		cfg     heat.Config
		picture string
		out     string
	)
	cmd := &cobra.Command{
		Use:    "rank",
		Short:  "One of the processes that demo starts",
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

// demoRank takes part in the run; rank 0 also reads, writes and checks.
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

// checkPlate computes the result once more, alone.
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
