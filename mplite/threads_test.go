package mplite_test

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/vipl"
)

// TestNonblockingGoroutines: several goroutines of each rank start collectives,
// each on a communicator of its own, and wait for them by every kind of call,
// beside others that send and receive. The operation calls the package itself.
func TestNonblockingGoroutines(t *testing.T) {
	const size, workers = 3, 3
	errs := make([]error, size)
	var ranks sync.WaitGroup
	for rank := range size {
		ranks.Go(func() {
			nic, err := vipl.Open(t.Context(), &vipl.Config{Interface: vethtest.Loopback(51 + rank), Driver: "udp"})
			if err != nil {
				errs[rank] = err
				return
			}
			defer nic.Close()
			cfg := small
			cfg.Job, cfg.Rank, cfg.Size, cfg.NIC = runOf(t), rank, size, nic
			errs[rank] = threadedRank(&cfg, workers)
		})
	}
	ranks.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func threadedRank(cfg *mplite.Config, workers int) error {
	c, err := mplite.Init(bg, cfg)
	if err != nil {
		return err
	}
	errs := make([]error, workers+1)
	var goroutines sync.WaitGroup
	goroutines.Go(func() { errs[workers] = ringOf(c, 250) })
	for i := range workers {
		d, err := c.Dup(bg)
		if err != nil {
			return err
		}
		goroutines.Go(func() { errs[i] = reduceOften(d, 30) })
	}
	goroutines.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return c.Finalize(bg)
}

// ringOf passes messages around.
func ringOf(c *mplite.Comm, rounds int) error {
	next, prev := (c.Rank()+1)%c.Size(), (c.Rank()+c.Size()-1)%c.Size()
	buf := make([]byte, 3000)
	for i := range rounds {
		if _, err := c.Sendrecv(bg, content(i*10, uint64(i)), next, 0, buf, prev, 0); err != nil {
			return err
		}
		if err := same(buf[:i*10], uint64(i)); err != nil {
			return err
		}
	}
	return nil
}

// reduceOften has four collectives under way at a time.
func reduceOften(c *mplite.Comm, rounds int) error {
	asks := mplite.NewOp(true, func(a, b int) int {
		c.Iprobe(mplite.AnySource, mplite.AnyTag)
		return a + b
	})
	want := c.Size() * (c.Size() - 1) / 2
	for round := range rounds {
		reqs := make([]mplite.Request, 4)
		sums := make([][]int, 4)
		for i := range reqs {
			op, n := asks, 1+i
			if i == 3 {
				op, n = mplite.Sum[int](), 1000
			}
			sums[i] = make([]int, n)
			for k := range sums[i] {
				sums[i][k] = c.Rank()
			}
			var err error
			if reqs[i], err = mplite.Iallreduce(c, nil, sums[i], op); err != nil {
				return err
			}
		}
		if err := endBy(round, reqs); err != nil {
			return err
		}
		for i, v := range sums {
			for _, got := range v {
				if got != want {
					return fmt.Errorf("round %d: sum %d of collective %d, want %d", round, got, i, want)
				}
			}
		}
	}
	return nil
}

func endBy(round int, reqs []mplite.Request) error {
	switch round % 3 {
	case 0:
		return mplite.Waitall(bg, reqs, nil)
	case 1:
		for range reqs {
			if _, _, err := mplite.Waitany(bg, reqs); err != nil {
				return err
			}
		}
		return nil
	}
	if done, err := mplite.Testall(reqs, nil); done {
		return err
	}
	return mplite.Waitall(bg, reqs, nil)
}

// TestMismatchBesideALeader: a rank whose goroutines wait for messages, one of them
// as the leader, finds out that its collective and that of the other rank, which
// waits too, do not fit.
func TestMismatchBesideALeader(t *testing.T) {
	errs := make([]error, 2)
	var ranks sync.WaitGroup
	for rank := range errs {
		ranks.Go(func() {
			nic, err := vipl.Open(t.Context(), &vipl.Config{Interface: vethtest.Loopback(61 + rank), Driver: "udp"})
			if err != nil {
				errs[rank] = err
				return
			}
			defer nic.Close()
			errs[rank] = besideALeader(&mplite.Config{Config: job.Config{Job: runOf(t), Rank: rank, Size: len(errs), NIC: nic}})
		})
	}
	ranks.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func besideALeader(cfg *mplite.Config) error {
	c, err := mplite.Init(bg, cfg)
	if err != nil {
		return err
	}
	d, err := c.Dup(bg)
	if err != nil {
		return err
	}
	received := make(chan error)
	go func() {
		_, err := c.Recv(bg, nil, 1-c.Rank(), 0)
		received <- err
	}()
	for !c.Pending().Leading {
		runtime.Gosched()
	}
	if err := d.Bcast(bg, make([]byte, 8), 1-c.Rank()); !errors.Is(err, mplite.ErrMismatch) {
		return fmt.Errorf("two roots: %w", err)
	}
	if err := c.Send(bg, nil, 1-c.Rank(), 0); err != nil {
		return err
	}
	if err := <-received; err != nil {
		return err
	}
	return c.Finalize(bg)
}
