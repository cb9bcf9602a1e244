package simjob

import (
	"context"
	"fmt"
	"testing"

	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/splitc"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// RunSplitC calls body as every process of a Split-C program over the given layer, from
// Start to Exit. It fails t as Run does.
func RunSplitC(t *testing.T, opts sim.Options, layer string, procs int, body func(ctx context.Context, w *splitc.World)) {
	t.Helper()
	world := sim.New(opts)
	for proc := range procs {
		link := world.Station(fmt.Sprint("host", proc))
		world.Go(fmt.Sprint("process", proc), func() {
			nic, err := vipl.Open(t.Context(), &vipl.Config{Link: link, Seed: opts.Seed + uint64(proc) + 1})
			if err != nil {
				t.Errorf("process %d: %v", proc, err)
				return
			}
			defer nic.Close()
			w, err := splitc.Start(t.Context(), &splitc.Config{Config: job.Config{Job: t.Name(), Rank: proc, Size: procs, NIC: nic}, Layer: layer, HeapSize: 1 << 20})
			if err != nil {
				t.Errorf("process %d: %v", proc, err)
				return
			}
			body(t.Context(), w)
			if err := w.Exit(t.Context()); err != nil {
				t.Errorf("process %d: %v", proc, err)
			}
		})
	}
	if err := world.Run(); err != nil {
		t.Fatalf("seed %d: %v", opts.Seed, err)
	}
}

// Layers calls test for each layer of Split-C with several numbers of processes. In short tests
// these are three processes over each layer, and fewer processes over one layer.
func Layers(t *testing.T, test func(t *testing.T, layer string, procs int)) {
	for i, layer := range splitc.Layers() {
		sizes := []int{1, 2, 3, 5}
		switch {
		case !need.Full() && i == 0:
			sizes = []int{1, 2, 3}
		case !need.Full():
			sizes = []int{3}
		}
		for _, procs := range sizes {
			t.Run(fmt.Sprint(layer, " on ", procs), func(t *testing.T) { test(t, layer, procs) })
		}
	}
}
