package mplite_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// TestLastControlCredit: two ranks owe each other more acknowledgements than
// there are control credits, and data credits besides. Each spends what control
// credits it has before it learns that the other has done so too, and neither
// has data to send that could bring some back.
func TestLastControlCredit(t *testing.T) {
	const messages = 48 // the acknowledgements find bounce buffers, and half of all data credits are owed
	j := newJob(2, sim.Options{}, mplite.Config{EagerSize: 64, Credits: 64})
	j.start(func(c *mplite.Comm) error {
		for range 2 { // these messages return the credits of the hellos
			if err := c.Barrier(bg); err != nil {
				return err
			}
		}
		if err := j.computesFor(c, time.Millisecond); err != nil { // until both ranks have left the barrier
			return err
		}
		var reqs []mplite.Request
		for range messages {
			r, err := c.Irecv(nil, 1-c.Rank(), 0)
			if err != nil {
				return err
			}
			s, err := c.Issend(nil, 1-c.Rank(), 0)
			if err != nil {
				return err
			}
			reqs = append(reqs, r, s)
		}
		if err := j.computesFor(c, 10*time.Millisecond); err != nil { // until all have arrived
			return err
		}
		ctx, cancel := c.NIC().WithTimeout(bg, time.Second)
		defer cancel()
		return mplite.Waitall(ctx, reqs, nil)
	})
	check(t, j.run())
}

// TestHungryRank: a rank without credits gets one as soon as a receive buffer is free, even if
// messages without a credit have been sent to it meanwhile.
func TestHungryRank(t *testing.T) {
	cfg := mplite.Config{EagerSize: 1024, Credits: 8, SpillLimit: -1}
	for _, answers := range []int{0, 1, 3} {
		j := newJob(2, sim.Options{}, cfg)
		j.start(func(c *mplite.Comm) error {
			if c.Rank() == 0 {
				for i := range cfg.Credits + 1 { // the last one finds no credit
					if err := c.Send(bg, nil, 1, i/cfg.Credits); err != nil {
						return err
					}
				}
				return nil
			}
			if err := j.computesFor(c, 10*time.Millisecond); err != nil {
				return err
			}
			if _, found, err := c.Iprobe(0, 1); found || err != nil {
				return fmt.Errorf("a message has come without a credit: %v, %v", found, err)
			}
			for range answers {
				if err := c.Send(bg, nil, 0, 2); err != nil {
					return err
				}
			}
			ctx, cancel := c.NIC().WithTimeout(bg, time.Second)
			defer cancel()
			for _, tag := range []int{0, 1} {
				if _, err := c.Recv(ctx, nil, 0, tag); err != nil {
					return fmt.Errorf("after %d answers, receive with tag %d: %w", answers, tag, err)
				}
			}
			return nil
		})
		check(t, j.run())
	}
}

// TestSpillLimit: floods of messages of different sizes stay within the memory limit for unexpected
// messages.
func TestSpillLimit(t *testing.T) {
	const limit, eager = 1 << 20, 32 << 10
	ctx, cancel := context.WithTimeout(bg, time.Minute)
	defer cancel()
	c, err := mplite.Init(bg, &mplite.Config{EagerSize: eager, SpillLimit: limit})
	check(t, err)
	for n := 64; n <= eager; n *= 2 {
		buf := make([]byte, n)
		flood := limit / (n + 128) / 2
		for range flood {
			check(t, c.Send(ctx, buf, 0, 1))
		}
		for range flood {
			_, err := c.Recv(ctx, buf, 0, 1)
			check(t, err)
		}
		if kept, believed := mplite.SpillKept(c); kept > limit || kept != believed {
			t.Errorf("after messages of up to %d bytes %d bytes are kept, counted as %d; the limit is %d", n, kept, believed, limit)
		}
	}
	if s := c.Snapshot(); s.SpillBytes != 0 {
		t.Errorf("%d bytes are in use, want 0", s.SpillBytes)
	}
	check(t, c.Finalize(bg))
}

// TestSpillLetsOthersThrough: a message arrives after three times as many unexpected messages as
// there are receive buffers, because these are moved to the spill pool.
func TestSpillLetsOthersThrough(t *testing.T) {
	cfg := mplite.Config{EagerSize: 256, Credits: 4}
	flood := 3 * cfg.Credits
	check(t, runJob(2, sim.Options{}, cfg, func(c *mplite.Comm) error {
		if c.Rank() == 0 {
			for i := range flood {
				if err := c.Send(bg, content(200, uint64(i)), 1, 1); err != nil {
					return err
				}
			}
			return c.Send(bg, nil, 1, 2)
		}
		ctx, cancel := c.NIC().WithTimeout(bg, time.Second)
		defer cancel()
		if _, err := c.Recv(ctx, nil, 0, 2); err != nil {
			return fmt.Errorf("behind %d unexpected messages: %w", flood, err)
		}
		if c.Snapshot().SpillBytes == 0 {
			return errors.New("no message is in the spill pool")
		}
		buf := make([]byte, 200)
		for i := range flood {
			if _, err := c.Recv(ctx, buf, 0, 1); err != nil {
				return err
			}
			if err := same(buf, uint64(i)); err != nil {
				return err
			}
		}
		return nil
	}))
}
