package mplite_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// survivors is a job of five that goes on when the victim has died: each of the others runs
// fn when it knows that, and then finalizes.
func survivors(fn func(j *testJob, c *mplite.Comm) error, finalized func(c *mplite.Comm, err error) error) error {
	cfg := small
	cfg.PeerTimeout = time.Second
	j := newJob(5, sim.Options{}, cfg)
	j.start(func(c *mplite.Comm) error {
		if err := c.Barrier(bg); err != nil {
			return err
		}
		if c.Rank() == victim {
			if err := j.computesFor(c, 20*time.Millisecond); err != nil { // what it has sent arrives
				return err
			}
			j.Kill(j.stations[victim])
			return errKilled
		}
		if _, err := c.Recv(bg, nil, victim, 1); blames("receive", err) != nil {
			return blames("receive", err)
		}
		err := fn(j, c)
		if err == nil {
			err = finalized(c, c.Finalize(bg))
		}
		if err == nil {
			err = errKilled // who is dead to others, or has finalized, need not do so again
		}
		return err
	})
	return j.runKilled()
}

func acknowledge(c *mplite.Comm) error {
	if failed := c.AckFailed(); !slices.Equal(failed, []int{victim}) {
		return fmt.Errorf("ranks %v have failed, want %d", failed, victim)
	}
	return nil
}

// TestFinalizeAmongTheLiving: Finalize of ranks that have acknowledged a death succeeds,
// and waits for one that still works and sends them what they have asked for.
func TestFinalizeAmongTheLiving(t *testing.T) {
	var j *testJob
	late, lateUntil := 3, int64(0)
	check(t, survivors(func(in *testJob, c *mplite.Comm) error {
		j = in
		if err := acknowledge(c); err != nil || c.Rank() != late {
			return err
		}
		if err := j.computesFor(c, 5*time.Second); err != nil {
			return err
		}
		lateUntil = j.Now()
		return nil
	}, func(c *mplite.Comm, err error) error {
		if err == nil && j.Now() < lateUntil || lateUntil == 0 {
			err = fmt.Errorf("rank %d did not wait for rank %d: %w", c.Rank(), late, err)
		}
		return err
	}))
}

// TestFinalizeUnacknowledged: a rank that has not acknowledged the death gets its error, and
// the others do not.
func TestFinalizeUnacknowledged(t *testing.T) {
	const careless = 4
	check(t, survivors(func(_ *testJob, c *mplite.Comm) error {
		if c.Rank() == careless {
			return nil
		}
		return acknowledge(c)
	}, func(c *mplite.Comm, err error) error {
		if c.Rank() == careless {
			return blames("Finalize", err)
		}
		return err
	}))
}

// TestDeathInFinalize: a rank that dies while others finalize without the dead is named.
func TestDeathInFinalize(t *testing.T) {
	const second = 1
	check(t, survivors(func(j *testJob, c *mplite.Comm) error {
		if err := acknowledge(c); err != nil || c.Rank() != second {
			return err
		}
		if err := j.computesFor(c, time.Second); err != nil {
			return err
		}
		j.Kill(j.stations[second])
		return errKilled
	}, func(_ *mplite.Comm, err error) error {
		var failed *mplite.RankError
		if !errors.As(err, &failed) || failed.Rank != second {
			return fmt.Errorf("Finalize: %w, want that rank %d has failed", err, second)
		}
		return nil
	}))
}
