package mplite_test

import (
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// TestHeavyLoss: where half of the frames are lost, as behind two wires that lose 30 % each, an allreduce
// of 80 KB among eight ranks takes a few seconds at most.
func TestHeavyLoss(t *testing.T) {
	const ranks, most = 8, 4 * time.Second
	seeds(t, 2, func(seed uint64) error {
		j := newJob(ranks, sim.Options{Seed: seed, Loss: 0.51, Delay: 5 * time.Microsecond, Bandwidth: 10_000_000_000}, mplite.Config{Config: job.Config{Timeout: time.Minute}})
		var took time.Duration
		j.start(func(c *mplite.Comm) error {
			if err := c.Barrier(bg); err != nil {
				return err
			}
			began := j.Now()
			send, recv := make([]float64, 10_000), make([]float64, 10_000)
			err := mplite.Allreduce(bg, c, send, recv, mplite.Sum[float64]())
			took = max(took, time.Duration(j.Now()-began))
			return err
		})
		if err := j.run(); err != nil {
			return err
		}
		if took > most {
			t.Errorf("seed %d: it takes %v, want %v", seed, took, most)
		}
		return nil
	})
}
