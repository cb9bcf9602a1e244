package mplite_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// blockedCalls are calls that nothing but Finalize ends.
var blockedCalls = map[string]func(c, dup *mplite.Comm) error{
	"receive":          func(c, _ *mplite.Comm) error { return second(c.Recv(bg, make([]byte, 8), 1-c.Rank(), 1)) },
	"wildcard receive": func(c, _ *mplite.Comm) error { return second(c.Recv(bg, make([]byte, 8), mplite.AnySource, 2)) },
	"probe":            func(c, _ *mplite.Comm) error { return second(c.Probe(bg, mplite.AnySource, 3)) },
	"synchronous send": func(c, _ *mplite.Comm) error { return c.Ssend(bg, make([]byte, 8), 1-c.Rank(), 4) },
	"long send":        func(c, _ *mplite.Comm) error { return c.Send(bg, make([]byte, 1<<20), 1-c.Rank(), 5) },
	"receive from self": func(c, _ *mplite.Comm) error {
		return second(c.Recv(bg, nil, c.Rank(), 6))
	},
	"wait": func(c, _ *mplite.Comm) error {
		r, err := c.Irecv(make([]byte, 8), 1-c.Rank(), 7)
		if err != nil {
			return err
		}
		return second(r.Wait(bg))
	},
	"waitany": func(c, _ *mplite.Comm) error {
		r, err := c.Irecv(make([]byte, 8), 1-c.Rank(), 8)
		if err != nil {
			return err
		}
		_, _, err = mplite.Waitany(bg, []mplite.Request{{}, r})
		return err
	},
	"barrier": func(c, dup *mplite.Comm) error {
		if c.Rank() == 0 {
			return dup.Barrier(bg)
		}
		return second(dup.Recv(bg, nil, 0, 9))
	},
}

// TestFinalizeEndsBlockedCalls: whatever other goroutines of a rank wait for
// when it finalizes ends with ErrClosed, and nothing looks at memory that is no
// longer there.
func TestFinalizeEndsBlockedCalls(t *testing.T) {
	for range 5 {
		ranks := loopbackPair(t)
		both(t, func(rank int) error { return finalizeUnderCalls(t, ranks[rank]) })
		for rank, c := range ranks {
			if err := c.Barrier(bg); !errors.Is(err, mplite.ErrClosed) {
				t.Errorf("rank %d: barrier after Finalize: %v, want ErrClosed", rank, err)
			}
		}
	}
}

// loopbackPair makes a job of two ranks in this process, over the loopback.
func loopbackPair(t *testing.T) (ranks [2]*mplite.Comm) {
	both(t, func(rank int) error {
		nic, err := vipl.Open(t.Context(), &vipl.Config{Interface: vethtest.Loopback(61 + rank), Driver: "udp"})
		if err != nil {
			return err
		}
		t.Cleanup(func() { nic.Close() })
		ranks[rank], err = mplite.Init(bg, &mplite.Config{Config: job.Config{Job: runOf(t), Rank: rank, Size: 2, NIC: nic}})
		return err
	})
	return ranks
}

// TestFinalizeUnderTraffic: a rank finalizes under a context that has ended, while
// the other one keeps sending and a goroutine of its own takes what comes.
func TestFinalizeUnderTraffic(t *testing.T) {
	for range 20 {
		ranks := loopbackPair(t)
		both(t, func(rank int) error {
			c := ranks[rank]
			var calls sync.WaitGroup
			for _, call := range []func() error{
				func() error { return second(c.Recv(bg, make([]byte, 8), mplite.AnySource, 2)) },
				func() error { return c.Send(bg, make([]byte, 8), 1-rank, 2) },
			} {
				calls.Go(func() {
					for call() == nil {
					}
				})
			}
			if rank == 0 {
				for c.Snapshot().BytesReceived < 4000 {
				}
				c.Finalize(canceled())
			}
			calls.Wait()
			if rank == 1 {
				c.Finalize(canceled())
			}
			return nil
		})
	}
}

// finalizeUnderCalls finalizes a rank while a goroutine is in each of blockedCalls.
func finalizeUnderCalls(t *testing.T, c *mplite.Comm) error {
	dup, err := c.Dup(bg)
	if err != nil {
		return err
	}
	var calls sync.WaitGroup
	for name, call := range blockedCalls {
		calls.Go(func() {
			if err := call(c, dup); !errors.Is(err, mplite.ErrClosed) {
				t.Errorf("rank %d: %s ended with %v, want ErrClosed", c.Rank(), name, err)
			}
		})
	}
	for waiting := 0; waiting < len(blockedCalls)-1; { // one of them is the leader
		s := c.Pending()
		if waiting = s.Following; !s.Leading {
			waiting = 0
		}
		c.Iprobe(c.Rank(), 99)
	}
	err = c.Finalize(bg)
	calls.Wait()
	return err
}

// TestFinalizeAloneEndsAReceive: the same in a job of one rank, without a network.
func TestFinalizeAloneEndsAReceive(t *testing.T) {
	c, err := mplite.Init(bg, &mplite.Config{Config: job.Config{Size: 1}})
	check(t, err)
	ended := make(chan error)
	go func() { ended <- second(c.Recv(bg, nil, 0, 1)) }()
	for c.Pending().Following == 0 {
		c.Iprobe(0, 99)
	}
	check(t, c.Finalize(bg))
	if err := <-ended; !errors.Is(err, mplite.ErrClosed) {
		t.Errorf("the receive ended with %v, want ErrClosed", err)
	}
}

// TestFinalizeWaitsForAll: Finalize waits for ranks that call it later than
// Config.Timeout, and ends with its context.
func TestFinalizeWaitsForAll(t *testing.T) {
	cfg := small
	cfg.Timeout = time.Second
	j := newJob(3, sim.Options{}, cfg)
	j.start(func(c *mplite.Comm) error {
		if c.Rank() != 1 {
			return nil
		}
		return j.computesFor(c, 10*time.Second)
	})
	check(t, j.run())

	j = newJob(2, sim.Options{}, small)
	j.start(func(c *mplite.Comm) error {
		if c.Rank() == 1 {
			j.computesFor(c, 3*time.Second)
			return errKilled
		}
		ctx, cancel := within(c, time.Second)
		defer cancel()
		if err := c.Finalize(ctx); !errors.Is(err, vipl.ErrTimeout) {
			return fmt.Errorf("finalize under a context that ends: %w", err)
		}
		return errKilled
	})
	check(t, j.runKilled())
}

// TestFinalizeWaitsForWrites: a long message that its receive has met arrives,
// although both ranks finalize without waiting for it.
func TestFinalizeWaitsForWrites(t *testing.T) {
	const n = 300_000
	got := make([]byte, n)
	var recv mplite.Request
	j := newJob(2, sim.Options{Bandwidth: 1e8}, small)
	j.start(func(c *mplite.Comm) (err error) {
		mplite.SetMaxWrite(c, 10_000)
		if c.Rank() == 1 {
			_, err = c.Isend(content(n, 1), 0, 0)
			return err
		}
		recv, err = c.Irecv(got, 1, 0)
		return err
	})
	check(t, j.run())
	if _, err := recv.Wait(bg); err != nil {
		t.Errorf("the receive ended with %v", err)
	}
	check(t, same(got, 1))
}

// TestClose: Close ends the job, or frees a communicator, and does nothing when that has been done.
func TestClose(t *testing.T) {
	const ranks = 3
	j := newJob(ranks, sim.Options{}, mplite.Config{})
	for rank := range ranks {
		j.host(fmt.Sprintf("rank %d", rank), func(nic *vipl.NIC) error {
			cfg := j.cfg
			cfg.NIC, cfg.Rank = nic, rank
			c, err := mplite.Open(bg, &cfg)
			if err != nil {
				return err
			}
			dup, err := c.Dup(bg)
			if err != nil {
				return err
			}
			if err := errors.Join(dup.Close(), dup.Close(), c.Barrier(bg), c.Close(), c.Close()); err != nil {
				return err
			}
			if err := c.Finalize(bg); !errors.Is(err, mplite.ErrFinalized) {
				return fmt.Errorf("Finalize after Close: %w", err)
			}
			return nil
		})
	}
	check(t, j.run())
}
