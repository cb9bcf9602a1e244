package mplite_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// TestInitEndsWithContext: a rank that looks for a lower one, and one that
// waits for a higher one, stop when their context does.
func TestInitEndsWithContext(t *testing.T) {
	for rank := range 2 {
		nic, err := vipl.Open(t.Context(), &vipl.Config{Interface: vethtest.Loopback(51 + rank), Driver: "udp"})
		check(t, err)
		defer nic.Close()
		ctx, cancel := context.WithCancel(t.Context())
		defer time.AfterFunc(20*time.Millisecond, cancel).Stop()
		began := time.Now()
		_, err = mplite.Init(ctx, &mplite.Config{Config: job.Config{Job: runOf(t), Rank: rank, Size: 2, NIC: nic, Timeout: patience}})
		want := fmt.Sprintf(`before rank %d of job "%s" had connected`, 1-rank, runOf(t))
		if !errors.Is(err, context.Canceled) || !errors.Is(err, mplite.ErrInit) || !contains(err, want) {
			t.Errorf("rank %d: %v, want that it was cancelled and %q", rank, err, want)
		}
		if time.Since(began) >= patience {
			t.Errorf("rank %d: only Timeout ended Init", rank)
		}
	}
}

// TestManyMissing: with many ranks missing, Init's time is up little later than
// with one, and a few are named.
func TestManyMissing(t *testing.T) {
	const limit = 2 * time.Second
	for rank, named := range map[int]string{0: "rank 1, 2, 3, 4 of", 100: "rank 0, 1, 2, 3 of"} {
		j := newJob(200, sim.Options{}, mplite.Config{Config: job.Config{Timeout: limit}})
		j.host("alone", func(nic *vipl.NIC) error {
			err := j.rank(nic, rank, nil)
			if took := time.Duration(j.Now() - sim.Start); took > limit+limit/4 {
				return fmt.Errorf("Init took %v, want %v", took, limit)
			}
			if !errors.Is(err, mplite.ErrInit) || !contains(err, named+` job "test" did not appear within 2s`) || !contains(err, "195 more have not connected") {
				return fmt.Errorf("rank %d: %w", rank, err)
			}
			return nil
		})
		check(t, j.run())
	}
}

// TestTwoJobs: jobs on one segment whose names differ do not notice each other.
func TestTwoJobs(t *testing.T) {
	const size = 3
	w := sim.New(sim.Options{})
	var jobs []*testJob
	ended := 0
	for _, name := range []string{"job", "job/1"} {
		j := newJob(size, sim.Options{}, small)
		j.World, j.cfg.Job = w, name
		for rank := range size {
			j.host(fmt.Sprint(name, " rank ", rank), func(nic *vipl.NIC) error {
				return j.rank(nic, rank, func(c *mplite.Comm) error {
					ended++
					return sumOfJob(c, name)
				})
			})
		}
		jobs = append(jobs, j)
	}
	check(t, w.Run())
	for _, j := range jobs {
		check(t, errors.Join(j.errs...))
	}
	if ended != 2*size {
		t.Errorf("%d ranks have met, want %d", ended, 2*size)
	}
}

// sumOfJob adds up a number that all ranks of a job know, and no rank of another.
func sumOfJob(c *mplite.Comm, name string) error {
	sum := []int{len(name)}
	if err := mplite.Allreduce(bg, c, nil, sum, mplite.Sum[int]()); err != nil {
		return err
	}
	if want := len(name) * c.Size(); sum[0] != want {
		return fmt.Errorf("the ranks add up to %d, want %d", sum[0], want)
	}
	return nil
}

// TestStrangers: who asks a rank for a connection and does not belong to the
// job, or has another VI than its ranks have, is refused in words and counted, and
// the job comes together all the same.
func TestStrangers(t *testing.T) {
	otherVersion := mplite.Hello("test", 1, 2)
	otherVersion[0]++
	strangers := []struct {
		hello []byte
		words string
		attr  vipl.Attributes
	}{
		{hello: mplite.Hello("another", 1, 2), words: `that of job "test"`},
		{hello: otherVersion, words: "build all ranks from one source"},
		{hello: nil, words: "MPLite wire version 0"},
		{hello: mplite.Hello("test", 1, 3), words: "has 3 ranks according to rank 1 and 2 according to rank 0"},
		{hello: mplite.Hello("test", 2, 2), words: "rank 2 of 2 asks rank 0"},
		{hello: mplite.Hello("test", 0, 2), words: `rank 0 of job "test" is there already`},
		{hello: mplite.Hello("test", 1, 2), words: "qualities of service do not match", attr: vipl.Attributes{QoS: 1}},
		{hello: mplite.Hello("test", 1, 2), words: "maximum transfer sizes", attr: vipl.Attributes{MaxTransferSize: 4096}},
		{hello: mplite.Hello("test", 1, 2), words: "reliability levels", attr: vipl.Attributes{Reliability: reliability.ReliableReception}},
	}
	j := newJob(2, sim.Options{}, small)
	meet := func(c *mplite.Comm) error {
		if got := c.Snapshot().Refused; c.Rank() == 0 && got != uint64(len(strangers)) {
			return fmt.Errorf("%d requests were refused, want %d", got, len(strangers))
		}
		return c.Barrier(bg)
	}
	j.host("rank 0", func(nic *vipl.NIC) error { return j.rank(nic, 0, meet) })
	j.host("rank 1", func(nic *vipl.NIC) error {
		addr, err := nic.Lookup(bg, "job/test/0")
		if err != nil {
			return err
		}
		for _, s := range strangers {
			vi, err := nic.CreateVI(&s.attr, nil, nil)
			if err != nil {
				return err
			}
			if err := vi.Connect(bg, addr, s.hello); !errors.Is(err, vipl.ErrReject) || !contains(err, s.words) {
				return fmt.Errorf("a stranger got %w, want a refusal with %q", err, s.words)
			}
			if err := vi.Close(); err != nil {
				return err
			}
		}
		return j.rank(nic, 1, meet)
	})
	check(t, j.run())
}
