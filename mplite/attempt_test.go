package mplite_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/joining"
	"github.com/bobnet-go/bobnet/internal/refusal"
	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// fakeRank joins j's job as a rank without MPLite. It passes each connection request to handle,
// until handle returns true.
func fakeRank(j *testJob, nic *vipl.NIC, rank int, handle func(n int, req *vipl.Request) bool) error {
	cfg := j.cfg.Config
	cfg.NIC, cfg.Rank = nic, rank
	m, err := job.Open(bg, &cfg, job.Program{Name: "MPLite", Version: mplite.WireVersion, Params: [2]uint32{1 << 10, 8}})
	if err != nil {
		return err
	}
	p, err := joining.On(joining.Program{Name: "MPLite", Version: mplite.WireVersion, Timeout: time.Second}, m)
	if err != nil {
		return err
	}
	p.OnUse(func() {})
	for n := 0; ; {
		if err := errors.Join(m.Err(), j.Sleep(time.Millisecond)); err != nil || time.Duration(j.Now()-sim.Start) > patience {
			return fmt.Errorf("the fake rank has had %d requests: %w", n, err)
		}
		if ev, ok := p.Next(); ok && ev.Request != nil {
			if n++; handle(n, ev.Request) {
				m.Fail(errors.New("mplite: the test is over"))
				return nil
			}
		}
	}
}

// takes accepts a request and waits for the first message.
func takes(nic *vipl.NIC, req *vipl.Request) error {
	vi, err := acceptWith(nic, req)
	if err != nil {
		return err
	}
	ctx, cancel := nic.WithTimeout(bg, patience)
	defer cancel()
	_, err = vi.RecvWait(ctx)
	return err
}

// acceptWith accepts a request with a VI that has a receive.
func acceptWith(nic *vipl.NIC, req *vipl.Request) (*vipl.VI, error) {
	vi, err := nic.CreateVI(&vipl.Attributes{EnableRDMAWrite: true}, nil, nil)
	if err != nil {
		return nil, err
	}
	mem := make([]byte, 2<<10)
	handle, err := nic.RegisterMem(mem, nil)
	if err == nil {
		err = vi.PostRecv(&vipl.Descriptor{Segs: []vipl.Segment{{Data: mem, Handle: handle}}})
	}
	if err == nil {
		err = req.AcceptStart(vi)
	}
	return vi, err
}

// TestGivenUpAttempts: a rank that gives up attempts to connect, or is busy, does not count as
// dead. The other rank repeats the request until the message has been sent, also if its program
// polls.
func TestGivenUpAttempts(t *testing.T) {
	for name, refuse := range map[string]func(nic *vipl.NIC, req *vipl.Request){
		"busy": func(_ *vipl.NIC, req *vipl.Request) { refusal.Busy(req) },
		"given up": func(nic *vipl.NIC, req *vipl.Request) {
			if vi, err := acceptWith(nic, req); err == nil {
				vi.Close()
			}
		},
	} {
		for _, polls := range []bool{false, true} {
			seeds(t, 4, func(seed uint64) error {
				j := newJob(2, sim.Options{Seed: seed, Loss: 0.02 * float64(seed%4)}, onUse)
				var took error
				over := false
				j.host("sender", func(nic *vipl.NIC) error {
					cfg := j.cfg
					cfg.NIC = nic
					c, err := mplite.Init(bg, &cfg)
					if err != nil {
						return err
					}
					r, err := c.Isend([]byte("hello"), 1, 0)
					for done := false; polls && err == nil && !done; j.Sleep(time.Millisecond) {
						_, done, err = r.Test()
					}
					if !polls && err == nil {
						_, err = r.Wait(bg)
					}
					if err == nil {
						err = j.computes(c, func() bool { return over })
					}
					ended, cancel := context.WithCancel(bg)
					cancel()
					c.Finalize(ended)
					if err != nil {
						return fmt.Errorf("%s, polls %v: %w", name, polls, err)
					}
					return nil
				})
				j.host("fake", func(nic *vipl.NIC) error {
					return fakeRank(j, nic, 1, func(n int, req *vipl.Request) bool {
						if n < 4 {
							refuse(nic, req)
							return false
						}
						took, over = takes(nic, req), true
						return true
					})
				})
				return errors.Join(j.run(), took)
			})
		}
	}
}

// TestGivesUpAlways: a rank that gives up every attempt counts as dead after some time, and no call
// hangs.
func TestGivesUpAlways(t *testing.T) {
	cfg := onUse
	cfg.PeerTimeout = 300 * time.Millisecond
	j := newJob(2, sim.Options{}, cfg)
	over := false
	j.host("sender", func(nic *vipl.NIC) error {
		cfg := j.cfg
		cfg.NIC = nic
		c, err := mplite.Init(bg, &cfg)
		if err != nil {
			return err
		}
		err = c.Send(bg, []byte("hello"), 1, 0)
		over = true
		var failed *mplite.RankError
		if took := time.Duration(j.Now() - sim.Start); !errors.As(err, &failed) || failed.Rank != 1 || took < 500*time.Millisecond || took > 3*time.Second {
			return fmt.Errorf("after %v: %w, want that rank 1 failed", took, err)
		}
		ended, cancel := context.WithCancel(bg)
		cancel()
		c.Finalize(ended)
		return nil
	})
	j.host("fake", func(nic *vipl.NIC) error {
		err := fakeRank(j, nic, 1, func(_ int, req *vipl.Request) bool {
			if vi, err := acceptWith(nic, req); err == nil {
				vi.Close()
			}
			return over
		})
		if over {
			return nil
		}
		return err
	})
	check(t, j.run())
}

// TestAttemptEndsAtOnce: a rank notices the end of an attempt to connect even if the end occurs
// before the rank waits for it.
func TestAttemptEndsAtOnce(t *testing.T) {
	seeds(t, 4, func(seed uint64) error {
		j := newJob(2, sim.Options{Seed: seed}, onUse)
		j.start(func(c *mplite.Comm) error {
			if c.Rank() == 1 {
				_, err := c.Recv(bg, make([]byte, 5), 0, 0)
				return err
			}
			if err := mplite.ConnectWithin(c, 1, func(vi *vipl.VI) {
				for vi.State() == vipl.StateConnectPending {
					c.NIC().Poll()
					j.Sleep(10 * time.Microsecond)
				}
			}); err != nil {
				return err
			}
			return c.Send(bg, []byte("hello"), 1, 0)
		})
		return j.run()
	})
}

// TestDeathWithinInit: a rank dies when the ranks above it have returned from Init, and those below it have
// not. These give up. The others learn of each, and when they have acknowledged that, Finalize waits for
// nobody who is gone. So it is if one that gives up is killed as well, and can tell nobody.
func TestDeathWithinInit(t *testing.T) {
	const size, victim, below = 22, 1, 5
	seeds(t, 16, func(seed uint64) error {
		cfg := onUse
		cfg.PeerTimeout = 100 * time.Millisecond
		cfg.Timeout = 20 * time.Second
		j := newJob(size, sim.Options{Seed: seed, Loss: 0.02 * float64(seed/2%2)}, cfg)
		killed := []int{victim}
		if seed%2 > 0 {
			killed = append(killed, below)
		}
		gone := map[int]bool{}
		for rank := range size {
			j.host(fmt.Sprint("rank ", rank), func(nic *vipl.NIC) error {
				cfg := j.cfg
				cfg.NIC, cfg.Rank = nic, rank
				c, err := mplite.Init(bg, &cfg)
				if rank == 0 {
					for _, rank := range killed {
						j.Kill(j.stations[rank])
					}
				}
				if slices.Contains(killed, rank) || err != nil {
					gone[rank] = true
					var failed *mplite.RankError
					if !slices.Contains(killed, rank) && (!errors.As(err, &failed) || !slices.Contains(killed, failed.Rank)) {
						return fmt.Errorf("rank %d: Init: %w, want that rank %v failed", rank, err, killed)
					}
					return nil
				}
				for err == nil {
					err = c.Barrier(bg)
				}
				if !errors.Is(err, mplite.ErrRankFailed) {
					return fmt.Errorf("rank %d: %w", rank, err)
				}
				if err := j.computesFor(c, 2*time.Second); err != nil {
					return err
				}
				dead := c.AckFailed()
				for _, rank := range dead {
					if !gone[rank] {
						return fmt.Errorf("rank %d lives and counts as dead", rank)
					}
				}
				if !slices.Contains(dead, victim) {
					return fmt.Errorf("rank %d knows that %v are dead, want rank %d among them", rank, dead, victim)
				}
				ctx, cancel := nic.WithTimeout(bg, 5*time.Second)
				defer cancel()
				return c.Finalize(ctx)
			})
		}
		err := j.run()
		if err == nil && len(gone) < 2 {
			return fmt.Errorf("only %v have not come through", gone)
		}
		return err
	})
}
