package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/bobnet-go/bobnet/internal/perf"
	"github.com/bobnet-go/bobnet/internal/userfile"
)

// drawnTests are what --plot has a picture for.
var drawnTests = []string{perf.Latency, perf.Bandwidth, perf.Bidirectional, perf.Overhead, perf.LogP, perf.Primitives, perf.Bulk}

func drawn(test string) bool { return slices.Contains(drawnTests, test) }

// checkPlot finds out before the measurement whether the file of --plot can be
// written. What it contains stays until there is a new picture.
func (c *perfCall) checkPlot() error {
	if err := userfile.Check(c.plot); err != nil {
		return fmt.Errorf("--plot: %w", err)
	}
	return nil
}

// draw writes the picture of --plot.
func (c *perfCall) draw(records []perf.Record) error {
	if c.plot == "" || len(records) == 0 {
		return nil
	}
	f, err := userfile.Create(c.plot)
	if err != nil {
		return fmt.Errorf("--plot: %w", err)
	}
	return errors.Join(perf.WritePlot(f, records), f.Close())
}
