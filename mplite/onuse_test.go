package mplite_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// onUse is the configuration of ranks that connect on first use.
var onUse = mplite.Config{Connect: mplite.OnUse, EagerSize: 1 << 10, Credits: 8}

// connections returns how many ranks c's rank is connected with.
func connections(c *mplite.Comm) int { return mplite.Connected(c) }

// TestConnectsOnUse: a rank is connected with nobody before it sends, with those that it talks
// with from then on, and messages of every length arrive, over a network that loses frames, too.
func TestConnectsOnUse(t *testing.T) {
	const size = 4
	seeds(t, 8, func(seed uint64) error {
		j := newJob(size, sim.Options{Seed: seed, Loss: 0.05 * float64(seed%4)}, onUse)
		j.start(func(c *mplite.Comm) error {
			if n := connections(c); n != 0 && c.Rank() != 2 { // rank 1 may have sent to rank 2 by now
				return fmt.Errorf("%d connections after Init", n)
			}
			for id, n := range []int{0, 64, 1 << 10, 100 << 10} {
				switch c.Rank() {
				case 1:
					if err := c.Send(bg, content(n, uint64(id)), 2, id); err != nil {
						return err
					}
				case 2:
					buf := make([]byte, n)
					st, err := c.Recv(bg, buf, mplite.AnySource, id)
					if err != nil || st.Source != 1 || st.Count != n {
						return fmt.Errorf("receive of %d bytes: %+v %w", n, st, err)
					}
					if err := same(buf, uint64(id)); err != nil {
						return err
					}
				}
			}
			if n, want := connections(c), map[int]int{1: 1, 2: 1}[c.Rank()]; n != want {
				return fmt.Errorf("%d connections, want %d", n, want)
			}
			j.stays(c, size)
			return nil
		})
		return j.run()
	})
}

// TestFirstSendsCross: both ranks send first at the same time, and have one connection.
func TestFirstSendsCross(t *testing.T) {
	seeds(t, 30, func(seed uint64) error {
		return runJob(2, sim.Options{Seed: seed, Loss: 0.1 * float64(seed%4), Jitter: 20 * time.Microsecond}, onUse, func(c *mplite.Comm) error {
			other := 1 - c.Rank()
			for i := range 3 {
				buf := make([]byte, 100)
				if _, err := c.Sendrecv(bg, content(100, uint64(10*c.Rank()+i)), other, i, buf, other, i); err != nil {
					return err
				}
				if err := same(buf, uint64(10*other+i)); err != nil {
					return err
				}
			}
			if n := connections(c); n != 1 {
				return fmt.Errorf("%d connections", n)
			}
			return nil
		})
	})
}

// TestFirstSendToABusyRank: a first send returns although the program of the receiver computes.
func TestFirstSendToABusyRank(t *testing.T) {
	j := newJob(2, sim.Options{}, onUse)
	sent := false
	j.start(func(c *mplite.Comm) error {
		if c.Rank() == 0 {
			err := c.Send(bg, []byte("hello"), 1, 0)
			sent = true
			return err
		}
		if err := j.computes(c, func() bool { return sent }); err != nil {
			return err
		}
		buf := make([]byte, 5)
		_, err := c.Recv(bg, buf, 0, 0)
		if !bytes.Equal(buf, []byte("hello")) {
			return fmt.Errorf("got %q %w", buf, err)
		}
		return err
	})
	check(t, j.run())
}

// TestIncast: all ranks send first to one at the same instant.
func TestIncast(t *testing.T) {
	size := 24
	if need.Full() {
		size = 256
	}
	seeds(t, 2, func(seed uint64) error {
		j := newJob(size, sim.Options{Seed: seed, Loss: 0.05}, onUse)
		inited, at := 0, int64(0)
		j.start(func(c *mplite.Comm) error {
			if inited++; inited == size {
				at = j.Now() + int64(10*time.Millisecond)
			}
			if err := j.computes(c, func() bool { return inited == size }); err != nil {
				return err
			}
			j.Sleep(time.Duration(at - j.Now()))
			if c.Rank() != 0 {
				if j.Now() != at {
					return fmt.Errorf("it sends at %v, want %v", j.Now(), at)
				}
				return c.Send(bg, content(500, uint64(c.Rank())), 0, 0)
			}
			for range size - 1 {
				buf := make([]byte, 500)
				st, err := c.Recv(bg, buf, mplite.AnySource, 0)
				if err != nil {
					return err
				}
				if err := same(buf, uint64(st.Source)); err != nil {
					return err
				}
			}
			return nil
		})
		return j.run()
	})
}

// TestKillOnUse: a rank that is killed at any time, in Init, while ranks connect first, or between
// collectives, is named by the errors of all others, which end soon. If all have returned from Init
// before, the others go on among themselves.
func TestKillOnUse(t *testing.T) {
	size, count := 12, 6
	if need.Full() {
		size, count = 64, 500
	}
	seeds(t, count, func(seed uint64) error {
		cfg := onUse
		cfg.PeerTimeout = 100 * time.Millisecond
		cfg.Timeout = 2 * time.Second
		victim := int(seed*7) % size
		late, begun := seed%2 > 0, 0 // whether all have returned from Init before the kill, and how many have
		j := newJob(size, sim.Options{Seed: seed, Loss: 0.02 * float64(seed%3)}, cfg)
		j.Go("killer", func() {
			for late && begun < size {
				j.Sleep(time.Millisecond)
			}
			after := seed * seed * 3701 % 60_000 // microseconds: between collectives, or in Init
			if seed%4 == 1 {                     // in the first collective, in which ranks connect
				after %= 500
			}
			j.Sleep(time.Duration(after) * time.Microsecond)
			j.Kill(j.stations[victim])
		})
		for rank := range size {
			j.host(fmt.Sprint("rank ", rank), func(nic *vipl.NIC) error {
				cfg := j.cfg
				cfg.NIC, cfg.Rank = nic, rank
				c, err := mplite.Init(bg, &cfg)
				begun++
				for i := 0; err == nil; i++ {
					sum := []int{1}
					err = mplite.Allreduce(bg, c, nil, sum, mplite.Sum[int]())
				}
				if rank == victim {
					if c != nil {
						ended, cancel := context.WithCancel(bg)
						cancel()
						c.Finalize(ended)
					}
					return nil
				}
				if now := time.Duration(j.Now() - sim.Start); now > 7*time.Second {
					return fmt.Errorf("the error came at %v: %w", now, err)
				}
				var failed *mplite.RankError
				if !errors.As(err, &failed) || failed.Rank != victim {
					if c == nil && errors.Is(err, mplite.ErrInit) {
						return nil
					}
					return fmt.Errorf("%w, want that rank %d failed", err, victim)
				}
				if c == nil {
					return nil
				}
				if !late { // others may give up Init because of the victim
					if err := j.computesFor(c, 2*time.Second); err != nil {
						return err
					}
					c.AckFailed()
					if err := c.Finalize(bg); err != nil && !errors.Is(err, mplite.ErrRankFailed) {
						return err
					}
					if now := time.Duration(j.Now() - sim.Start); now > 10*time.Second {
						return fmt.Errorf("Finalize ended at %v", now)
					}
					return nil
				}
				c.AckFailed()
				next, prev := living(rank, 1, size, victim), living(rank, size-1, size, victim)
				buf := make([]byte, 8)
				if _, err := c.Sendrecv(bg, content(8, uint64(rank)), next, 5, buf, prev, 5); err != nil {
					return fmt.Errorf("among the living: %w", err)
				}
				if err := same(buf, uint64(prev)); err != nil {
					return err
				}
				return c.Finalize(bg)
			})
		}
		return j.run()
	})
}

// living returns the next rank that lives, by steps.
func living(rank, step, size, dead int) int {
	for rank = (rank + step) % size; rank == dead; rank = (rank + step) % size {
	}
	return rank
}
