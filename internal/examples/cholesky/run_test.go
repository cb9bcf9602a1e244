package cholesky

import (
	"context"
	"errors"
	"testing"

	"github.com/bobnet-go/bobnet/internal/examples/simjob"
	"github.com/bobnet-go/bobnet/splitc"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// TestRun: any layer and number of ranks gives the bits of one process.
func TestRun(t *testing.T) {
	c := Config{N: 6 * B, Down: 3, Over: 2, Seed: 2}
	want := NewMatrix(c)
	if err := want.Factor(); err != nil {
		t.Fatal(err)
	}
	simjob.Layers(t, func(t *testing.T, layer string, procs int) {
		simjob.RunSplitC(t, sim.Options{Seed: 1}, layer, procs, func(ctx context.Context, w *splitc.World) {
			_, got, err := Run(ctx, w, c, true)
			if err != nil {
				t.Errorf("process %d: %v", w.MyProc(), err)
			} else if w.MyProc() == 0 {
				if err := got.Equal(want); err != nil {
					t.Error(err)
				}
			}
		})
	})
}

func TestTooManyRanks(t *testing.T) {
	c := Config{N: B, Down: 1, Over: 1}
	simjob.RunSplitC(t, sim.Options{Seed: 1}, "am", 2, func(ctx context.Context, w *splitc.World) {
		if _, _, err := Run(ctx, w, c, false); !errors.Is(err, ErrConfig) {
			t.Errorf("process %d: %v", w.MyProc(), err)
		}
	})
}

func TestEqual(t *testing.T) {
	c := Config{N: 2 * B, Down: 1, Over: 1}
	a, b := NewMatrix(c), NewMatrix(c)
	if err := a.Equal(b); err != nil {
		t.Error(err)
	}
	b.at(1, 0)[7]++
	if a.Equal(b) == nil {
		t.Error("a difference was not seen")
	}
	if a.Equal(NewMatrix(Config{N: B, Down: 1, Over: 1})) == nil {
		t.Error("matrices of different sizes are equal")
	}
}
