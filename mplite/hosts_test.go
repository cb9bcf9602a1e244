package mplite_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"

	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// startOn adds the processes of a job whose rank r is on host place[r]. The ranks of a host share a NIC.
func (j *testJob) startOn(place []int, fn func(c *mplite.Comm) error) {
	byHost := map[int][]int{}
	for rank, host := range place {
		byHost[host] = append(byHost[host], rank)
	}
	for host := range len(byHost) {
		ranks := byHost[host]
		name := fmt.Sprintf("host %d", host)
		j.host(name, func(nic *vipl.NIC) error {
			left, done := len(ranks), j.Waiter()
			for _, rank := range ranks {
				j.Go(fmt.Sprintf("rank %d", rank), func() {
					if err := j.rank(nic, rank, fn); err != nil {
						j.errs = append(j.errs, fmt.Errorf("rank %d: %w", rank, err))
					}
					if left--; left == 0 {
						done.Wake()
					}
				})
			}
			return done.Wait(math.MaxInt64)
		})
	}
}

// runOn runs fn on every rank of a job, placed as startOn has it.
func runOn(place []int, cfg mplite.Config, fn func(c *mplite.Comm) error) error {
	j := newJob(len(place), sim.Options{}, cfg)
	j.startOn(place, fn)
	return j.run()
}

// blocks places ranks on hosts of perHost ranks each, which follow one another.
func blocks(size, perHost int) []int {
	place := make([]int, size)
	for rank := range place {
		place[rank] = rank / perHost
	}
	return place
}

// cyclic places one rank after the other on each host in turn.
func cyclic(size, hosts int) []int {
	place := make([]int, size)
	for rank := range place {
		place[rank] = rank % hosts
	}
	return place
}

// TestSplitShared: each host's ranks are in one communicator, in the order of keys and ranks.
func TestSplitShared(t *testing.T) {
	for _, tc := range []struct {
		place   []int
		connect mplite.Connect
	}{
		{[]int{0}, mplite.Ahead},
		{blocks(4, 1), mplite.Ahead},
		{blocks(4, 4), mplite.Ahead},
		{blocks(7, 3), mplite.Ahead},
		{cyclic(8, 3), mplite.Ahead},
		{cyclic(10, 4), mplite.OnUse},
		{[]int{1, 0, 0, 2, 1, 0, 2, 2, 2}, mplite.OnUse},
	} {
		cfg := small
		cfg.Connect = tc.connect
		err := runOn(tc.place, cfg, func(c *mplite.Comm) error { return splitsShared(c, tc.place) })
		if err != nil {
			t.Fatalf("ranks on hosts %v: %v", tc.place, err)
		}
	}
}

func splitsShared(c *mplite.Comm, place []int) error {
	for _, backwards := range []bool{false, true} {
		key := 0
		var want []int
		for rank, host := range place {
			if host == place[c.Rank()] {
				want = append(want, rank)
			}
		}
		if backwards {
			key = -c.Rank()
			slices.Reverse(want)
		}
		near, err := c.SplitShared(bg, key)
		if err != nil {
			return err
		}
		if got := ranksOf(c, near.Group()); !slices.Equal(got, want) {
			return fmt.Errorf("rank %d shares its host with %v, want %v", c.Rank(), got, want)
		}
		sum := []int{1}
		if err := mplite.Allreduce(bg, near, nil, sum, mplite.Sum[int]()); err != nil || sum[0] != len(want) {
			return fmt.Errorf("the host has %d ranks: %w, want %d", sum[0], err, len(want))
		}
	}
	return nil
}

// TestSplitSharedMismatch: a rank that calls another function gives every rank an error that names both.
func TestSplitSharedMismatch(t *testing.T) {
	check(t, runOn(blocks(3, 2), mplite.Config{}, func(c *mplite.Comm) error {
		c, err := c.Dup(bg) // the job's own communicator is for Finalize
		if err != nil {
			return err
		}
		if c.Rank() == 2 {
			_, err = c.Split(bg, 0, 0)
		} else {
			_, err = c.SplitShared(bg, 0)
		}
		var m *mplite.MismatchError
		if !errors.As(err, &m) || !slices.Contains(m.Calls[:], "split") || !slices.Contains(m.Calls[:], "split_shared") {
			return fmt.Errorf("%v, want a mismatch of split and split_shared", err)
		}
		return nil
	}))
}

// TestSplitSharedLive: NICs of one namespace share memory, those of two do not.
func TestSplitSharedLive(t *testing.T) {
	p := vethtest.New(t, 1500)
	const size = 4
	var wg sync.WaitGroup
	errs := make([]error, size)
	for rank := range size {
		var nic *vipl.NIC
		check(t, p.In(rank%2, func() (err error) {
			nic, err = vipl.Open(t.Context(), &vipl.Config{Interface: vethtest.Name})
			return err
		}))
		t.Cleanup(func() { nic.Close() })
		cfg := mplite.Config{}
		cfg.Job, cfg.Rank, cfg.Size, cfg.NIC = t.Name(), rank, size, nic
		wg.Go(func() { errs[rank] = splitLive(t.Context(), cfg) })
	}
	wg.Wait()
	check(t, errors.Join(errs...))
}

func splitLive(ctx context.Context, cfg mplite.Config) error {
	c, err := mplite.Init(ctx, &cfg)
	if err != nil {
		return err
	}
	if err := splitsShared(c, cyclic(cfg.Size, 2)); err != nil {
		return err
	}
	return c.Finalize(ctx)
}
