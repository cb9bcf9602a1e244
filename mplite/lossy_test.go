package mplite_test

import (
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// TestLossyStream: a lost frame costs a stream of long messages, which are written to
// the receiver's memory, little more than itself.
func TestLossyStream(t *testing.T) {
	for _, size := range []int{32 << 10, 256 << 10} {
		without, with := streamTime(t, size, 0), streamTime(t, size, 0.01)
		if with > without*3/2 {
			t.Errorf("%d bytes: with one frame of a hundred lost it takes %v, without loss %v", size, with, without)
		}
	}
}

// streamTime returns how long messages take from one rank to another, eight at a
// time.
func streamTime(t *testing.T, size int, loss float64) (took time.Duration) {
	t.Helper()
	const window, rounds = 8, 10
	j := newJob(2, sim.Options{Seed: 1, Loss: loss, Delay: 5 * time.Microsecond, Bandwidth: 10_000_000_000}, mplite.Config{})
	j.start(func(c *mplite.Comm) error {
		if err := c.Barrier(bg); err != nil {
			return err
		}
		began, start := j.Now(), c.Isend
		if c.Rank() == 1 {
			start = c.Irecv
		}
		bufs := make([]byte, window*size)
		for range rounds {
			var reqs []mplite.Request
			for i := range window {
				r, err := start(bufs[i*size:][:size], 1-c.Rank(), 0)
				if err != nil {
					return err
				}
				reqs = append(reqs, r)
			}
			if err := mplite.Waitall(bg, reqs, nil); err != nil {
				return err
			}
		}
		took = max(took, time.Duration(j.Now()-began))
		return nil
	})
	if err := j.run(); err != nil {
		t.Fatal(err)
	}
	return took
}
