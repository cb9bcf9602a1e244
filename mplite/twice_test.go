package mplite_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// isTwice returns an error unless err says that two processes claim a rank, and
// where they are.
func isTwice(err error, rank int) error {
	var twice *mplite.DuplicateError
	if !errors.As(err, &twice) || !errors.Is(err, mplite.ErrInit) || twice.Rank != rank || twice.Job != "test" ||
		twice.First == twice.Second || twice.First.IsZero() || twice.Second.IsZero() {
		return fmt.Errorf("%w, want that rank %d is there twice, and where", err, rank)
	}
	return nil
}

// begins adds a rank that starts after a while and ends as want has it.
func (j *testJob) begins(name string, rank int, after time.Duration, want func(error) error) {
	j.host(name, func(nic *vipl.NIC) error {
		if err := j.Sleep(after); err != nil {
			return err
		}
		err := want(j.rank(nic, rank, func(c *mplite.Comm) error { return c.Barrier(bg) }))
		if took := time.Duration(j.Now()-sim.Start) - after; err == nil && took > 3*time.Second {
			return fmt.Errorf("%s ended after %v", name, took)
		}
		return err
	})
}

// TestTwoRuns: of two jobs of one name all ranks say so, whoever comes first and
// whomever they meet; no rank of one works with ranks of the other.
func TestTwoRuns(t *testing.T) {
	for _, size := range []int{2, 3, 5} {
		for _, later := range []time.Duration{0, 100 * time.Microsecond, 5 * time.Millisecond} {
			seeds(t, 8, func(seed uint64) error {
				j := newJob(size, sim.Options{Seed: seed, Reorder: 0.1}, small)
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
}

// TestRankTwice: all ranks say that one was started twice.
func TestRankTwice(t *testing.T) {
	const size = 4
	for twice := 1; twice < size; twice++ {
		seeds(t, 8, func(seed uint64) error {
			j := newJob(size, sim.Options{Seed: seed}, small)
			for rank := range size {
				want := func(err error) error { return isTwice(err, twice) }
				j.begins(fmt.Sprint("rank ", rank), rank, time.Duration(rank%2)*time.Millisecond, want)
				if rank == twice {
					j.begins(fmt.Sprint("rank ", rank, " again"), rank, 0, want)
				}
			}
			return j.run()
		})
	}
}

// TestRankAgain: a rank that is started again when its job works learns at once
// that it is there already. The job does not notice, but counts it.
func TestRankAgain(t *testing.T) {
	const size = 3
	for again := range size {
		j := newJob(size, sim.Options{}, small)
		told := false
		j.start(func(c *mplite.Comm) error {
			for !told {
				c.Iprobe(c.Rank(), 0)
				c.NIC().Poll()
				if err := j.Sleep(time.Millisecond); err != nil {
					return err
				}
			}
			refused := []uint64{c.Snapshot().Refused}
			if err := mplite.Allreduce(bg, c, nil, refused, mplite.Sum[uint64]()); err != nil {
				return err
			}
			if refused[0] != 1 {
				return fmt.Errorf("%d requests refused, want 1", refused[0])
			}
			return nil
		})
		j.host("again", func(nic *vipl.NIC) error {
			defer func() { told = true }()
			j.Sleep(500 * time.Millisecond)
			return isTwice(j.rank(nic, again, nil), again)
		})
		check(t, j.run())
	}
}

// TestOtherRun: a rank that knows another run of the job than this one is refused,
// by rank 0 and by others.
func TestOtherRun(t *testing.T) {
	j := newJob(3, sim.Options{}, small)
	ended := 0
	meet := func(c *mplite.Comm) error {
		ended++
		if got := c.Snapshot().Refused; c.Rank() < 2 && got != 1 {
			return fmt.Errorf("%d requests refused, want 1", got)
		}
		return c.Barrier(bg)
	}
	for rank := range 2 {
		j.host(fmt.Sprint("rank ", rank), func(nic *vipl.NIC) error { return j.rank(nic, rank, meet) })
	}
	j.host("rank 2", func(nic *vipl.NIC) error {
		for rank := range 2 {
			addr, err := nic.Lookup(bg, fmt.Sprint("job/test/", rank))
			if err != nil {
				return err
			}
			vi, err := nic.CreateVI(nil, nil, nil)
			if err != nil {
				return err
			}
			err = vi.Connect(bg, addr, mplite.OfRun(mplite.Hello("test", 2, 3), 12345))
			if !errors.Is(err, vipl.ErrReject) || !contains(err, `another run of job "test"`) {
				return fmt.Errorf("rank %d: %w, want a refusal", rank, err)
			}
			vi.Close()
		}
		return j.rank(nic, 2, meet)
	})
	check(t, j.run())
	if ended != 3 {
		t.Errorf("%d ranks have met", ended)
	}
}
