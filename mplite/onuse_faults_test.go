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

// fewPorts is how many ports a NIC of onFewPorts has: for a listener, five links of the tree, and some more.
const fewPorts = 12

// noPort is the text of the error for a connection that finds no port.
const noPort = "no port in 1..12 is free; open the NIC with a wider Config.Ports"

// onFewPorts runs fn at each rank of a job of 16, of which rank 0 has few ports. It ends the job without a barrier.
func onFewPorts(t *testing.T, fn func(j *testJob, c *mplite.Comm) error) {
	const size = 16
	j := newJob(size, sim.Options{}, onUse)
	for rank := range size {
		name := fmt.Sprint("rank ", rank)
		ports := transport.AllPorts
		if rank == 0 {
			ports = transport.PortRange{Lo: 1, Hi: fewPorts}
		}
		j.hostOn(j.StationWith(sim.StationOptions{Name: name, Ports: ports}), name, func(nic *vipl.NIC) error {
			cfg := j.cfg
			cfg.NIC, cfg.Rank = nic, rank
			c, err := mplite.Init(bg, &cfg)
			if err != nil {
				return err
			}
			ended, cancel := context.WithCancel(bg)
			cancel()
			defer c.Finalize(ended) // its barrier would need ports
			return fn(j, c)
		})
	}
	check(t, j.run())
}

// TestCollectiveWithoutPort: a collective finds no port for one of its connections, while other messages of it are
// missing. It ends at both ranks of the connection, with an error that names the limit.
func TestCollectiveWithoutPort(t *testing.T) {
	for _, n := range []int{4, 128} { // of the algorithms one exchanges messages in turn, and one sends all at once
		over := 0
		onFewPorts(t, func(j *testJob, c *mplite.Comm) error {
			ctx, cancel := c.NIC().WithTimeout(bg, time.Second)
			defer cancel()
			err := mplite.Alltoall(ctx, c, make([]int64, n*c.Size()), make([]int64, n*c.Size()))
			over++
			if named := errors.Is(err, vipl.ErrResource) && contains(err, noPort); !named && (c.Rank() == 0 || c.Rank() == 8) {
				err = fmt.Errorf("all-to-all of %d numbers at rank %d: %w", n, c.Rank(), err)
			} else {
				err = nil // others wait for ranks that have ended it
			}
			return errors.Join(err, j.computes(c, func() bool { return over == c.Size() }))
		})
	}
}

// TestNoMorePorts: a rank sends to more ranks than its NIC has ports for. The send that needs one more ends with
// an error that names the limit and what raises it, and so does one of a rank to which it has no connection. Nobody
// counts as dead, and the rest goes on.
func TestNoMorePorts(t *testing.T) {
	const last = 15
	full, asked, over := false, false, false
	onFewPorts(t, func(j *testJob, c *mplite.Comm) error {
		if c.Rank() > 0 {
			if err := j.computes(c, func() bool { return full }); err != nil || c.Rank() != last {
				return errors.Join(err, j.computes(c, func() bool { return over }))
			}
			err := c.Send(bg, []byte("hello"), 0, 0)
			asked = true
			if !errors.Is(err, vipl.ErrResource) || !errors.Is(err, vipl.ErrReject) || errors.Is(err, mplite.ErrRankFailed) || !contains(err, noPort) {
				return fmt.Errorf("a send to rank 0: %w", err)
			}
			return j.computes(c, func() bool { return over })
		}
		sent, err := 0, error(nil)
		for other := 1; other < last && err == nil; other++ {
			if err = c.Send(bg, []byte("hello"), other, 0); err == nil {
				sent++
			}
		}
		if !errors.Is(err, vipl.ErrResource) || errors.Is(err, mplite.ErrRankFailed) || !contains(err, noPort) {
			return fmt.Errorf("after %d sends: %w", sent, err)
		}
		if err := c.Send(bg, []byte("again"), 1, 0); err != nil {
			return fmt.Errorf("over a connection that exists: %w", err)
		}
		full = true
		if err := j.computes(c, func() bool { return asked }); err != nil {
			return err
		}
		if dead := c.AckFailed(); dead != nil {
			return fmt.Errorf("ranks %v count as dead", dead)
		}
		over = true
		return nil
	})
}

// TestTooManyRanks: a job larger than the limit is refused by name.
func TestTooManyRanks(t *testing.T) {
	_, err := mplite.Init(bg, &mplite.Config{Config: job.Config{Job: "test", Size: job.MaxRanks + 1}})
	if !errors.Is(err, mplite.ErrArgument) || !contains(err, fmt.Sprintf("1..%d", job.MaxRanks)) {
		t.Errorf("%v", err)
	}
}
