package mplite_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	jobs "github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// memberJob is a job whose ranks join by package job, as a program does that uses
// several packages with ranks, and then run fn.
func memberJob(size int, fn func(j *testJob, m *jobs.Member, cfg mplite.Config) error) error {
	j := newJob(size, sim.Options{}, small)
	for rank := range size {
		j.host(fmt.Sprintf("rank %d", rank), func(nic *vipl.NIC) error {
			m, err := jobs.Open(bg, &jobs.Config{Job: "test", Rank: rank, Size: size, NIC: nic}, jobs.Program{Name: "Base", Version: 1})
			if err != nil {
				return err
			}
			cfg := small
			cfg.Member = m
			return fn(j, m, cfg)
		})
	}
	return j.run()
}

// TestMember: mplite is one of several packages of a process in one run of one job. It
// may begin again after Finalize, and not twice at a time.
func TestMember(t *testing.T) {
	for _, size := range []int{1, 2, 5} {
		check(t, memberJob(size, func(_ *testJob, m *jobs.Member, cfg mplite.Config) error {
			for range 2 {
				c, err := mplite.Init(bg, &cfg)
				if err != nil {
					return err
				}
				sum := []int{1}
				if err := mplite.Allreduce(bg, c, nil, sum, mplite.Sum[int]()); err != nil {
					return err
				}
				if c.Rank() != m.Identity().Rank || c.Size() != size || sum[0] != size || c.Job() != "test" {
					return fmt.Errorf("%v, sum %d", c, sum[0])
				}
				if _, err := mplite.Init(bg, &cfg); err == nil || !strings.Contains(err.Error(), "uses this member already") {
					return fmt.Errorf("a second Init: %w", err)
				}
				if err := c.Finalize(bg); err != nil {
					return err
				}
			}
			return errors.Join(m.Err(), m.Leave(bg))
		}))
	}
}

// TestMemberCancelled: an Init whose context has ended leaves the member as it was.
func TestMemberCancelled(t *testing.T) {
	check(t, memberJob(1, func(_ *testJob, m *jobs.Member, cfg mplite.Config) error {
		ctx, cancel := context.WithCancel(bg)
		cancel()
		if _, err := mplite.Init(ctx, &cfg); !errors.Is(err, context.Canceled) {
			return fmt.Errorf("with a context that has ended: %w", err)
		}
		c, err := mplite.Init(bg, &cfg)
		if err != nil {
			return err
		}
		return errors.Join(c.Finalize(bg), m.Leave(bg))
	}))
}

// TestMemberSaysAll: what the member says must not be said again.
func TestMemberSaysAll(t *testing.T) {
	check(t, memberJob(1, func(_ *testJob, m *jobs.Member, cfg mplite.Config) error {
		for _, change := range []func(*mplite.Config){
			func(c *mplite.Config) { c.Job = "test" },
			func(c *mplite.Config) { c.Size = 1 },
			func(c *mplite.Config) { c.Interface = "eth0" },
		} {
			wrong := cfg
			change(&wrong)
			if _, err := mplite.Init(bg, &wrong); !errors.Is(err, mplite.ErrArgument) {
				return fmt.Errorf("%+v: %w", wrong, err)
			}
		}
		return m.Leave(bg)
	}))
}

// TestMemberHasFailed: Init ends, and says why, when the member knows of a rank that has
// failed before its own Init.
func TestMemberHasFailed(t *testing.T) {
	check(t, memberJob(3, func(j *testJob, m *jobs.Member, cfg mplite.Config) error {
		if m.Identity().Rank == victim {
			j.Sleep(time.Second) // until all have joined
			m.Fail(errors.New("base: no more memory"))
			return nil
		}
		_, err := mplite.Init(bg, &cfg)
		var failed *mplite.RankError
		if !errors.As(err, &failed) || failed.Rank != victim {
			return fmt.Errorf("init: %w", err)
		}
		if now := time.Duration(j.Now() - sim.Start); now > 3*time.Second {
			return fmt.Errorf("init ended at %v", now)
		}
		m.Fail(err)
		return nil
	}))
}
