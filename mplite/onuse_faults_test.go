package mplite_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// TestManyRanksHeavyLoss: where 30 % of the frames are lost, a job of many ranks starts, works and ends.
func TestManyRanksHeavyLoss(t *testing.T) {
	size := 32
	if need.Full() {
		size = 256
	}
	cfg := onUse
	cfg.Timeout = time.Minute
	seeds(t, 2, func(seed uint64) error {
		return runJob(size, sim.Options{Seed: seed, Loss: 0.3}, cfg, func(c *mplite.Comm) error {
			if err := c.Barrier(bg); err != nil {
				return err
			}
			return sumOfJob(c, "a job")
		})
	})
}

// TestNeverFinalizes: a rank never calls Finalize. That of the others ends with their context, and Close when
// Config.Timeout is over; the rank itself learns of the end.
func TestNeverFinalizes(t *testing.T) {
	const size, lazy = 12, 5
	cfg := onUse
	cfg.Timeout = 2 * time.Second
	j := newJob(size, sim.Options{}, cfg)
	ended := 0
	j.start(func(c *mplite.Comm) error {
		if err := c.Barrier(bg); err != nil {
			return err
		}
		if c.Rank() == lazy {
			if err := j.computes(c, func() bool { return ended == size-1 }); err != nil {
				return err
			}
			if _, err := c.Recv(bg, nil, 0, 0); !errors.Is(err, mplite.ErrRankFailed) {
				return fmt.Errorf("the rank that works on: %w", err)
			}
			return errKilled
		}
		defer func() { ended++ }()
		began := j.Now()
		ctx, cancel := c.NIC().WithTimeout(bg, time.Second)
		defer cancel()
		end := func() error { return c.Finalize(ctx) }
		if c.Rank()%2 > 0 {
			end = c.Close
		}
		err := end()
		took := time.Duration(j.Now() - began)
		if first := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, mplite.ErrRankFailed); !first || took > 2500*time.Millisecond {
			return fmt.Errorf("rank %d ended after %v: %w", c.Rank(), took, err)
		}
		return errKilled
	})
	check(t, j.runKilled())
}

// TestTwoRunsOnUse: of two jobs of one name that connect on first use all ranks say so.
func TestTwoRunsOnUse(t *testing.T) {
	const size = 12
	for _, later := range []time.Duration{0, 100 * time.Microsecond, 5 * time.Millisecond} {
		seeds(t, 4, func(seed uint64) error {
			j := newJob(size, sim.Options{Seed: seed, Reorder: 0.1}, onUse)
			for rank := range size {
				for run := range 2 {
					j.begins(fmt.Sprintf("rank %d of run %d", rank, run), rank, time.Duration(run)*later,
						func(err error) error { return isTwice(err, 0) })
				}
			}
			return j.run()
		})
	}
}

// TestNoMorePorts: a rank sends to more ranks than its NIC has ports for. The send that needs one more ends with
// an error that names the limit and what raises it; nobody counts as dead, and the rest goes on.
func TestNoMorePorts(t *testing.T) {
	const size, ports = 16, 12 // a listener, five links of the tree, and some more
	j := newJob(size, sim.Options{}, onUse)
	over := false
	for rank := range size {
		name := fmt.Sprint("rank ", rank)
		station := j.StationWith(sim.StationOptions{Name: name, Ports: transport.PortRange{Lo: 1, Hi: ports}})
		j.hostOn(station, name, func(nic *vipl.NIC) error {
			cfg := j.cfg
			cfg.NIC, cfg.Rank = nic, rank
			c, err := mplite.Init(bg, &cfg)
			if err != nil {
				return err
			}
			ended, cancel := context.WithCancel(bg)
			cancel()
			defer c.Finalize(ended) // its barrier would need ports
			if rank > 0 {
				return j.computes(c, func() bool { return over })
			}
			sent := 0
			for other := 1; other < size && err == nil; other++ {
				if err = c.Send(bg, []byte("hello"), other, 0); err == nil {
					sent++
				}
			}
			if !errors.Is(err, vipl.ErrResource) || errors.Is(err, mplite.ErrRankFailed) || !contains(err, "no port in 1..12 is free; open the NIC with a wider Config.Ports") {
				return fmt.Errorf("after %d sends: %w", sent, err)
			}
			if err := c.Send(bg, []byte("again"), 1, 0); err != nil {
				return fmt.Errorf("over a connection that exists: %w", err)
			}
			if dead := c.AckFailed(); dead != nil {
				return fmt.Errorf("ranks %v count as dead", dead)
			}
			over = true
			return nil
		})
	}
	check(t, j.run())
}

// TestTooManyRanks: a job larger than the limit is refused by name.
func TestTooManyRanks(t *testing.T) {
	_, err := mplite.Init(bg, &mplite.Config{Config: job.Config{Job: "test", Size: job.MaxRanks + 1}})
	if !errors.Is(err, mplite.ErrArgument) || !contains(err, fmt.Sprintf("1..%d", job.MaxRanks)) {
		t.Errorf("%v", err)
	}
}
