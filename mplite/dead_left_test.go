package mplite_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/mplite"
)

// What a death leaves behind: ranks that leave because of it, and messages of
// the dead.

// TestLeftBecauseOfADeath: a rank has heard that another is dead and calls
// Finalize, which fails. Who waits for it then is told of the dead rank.
func TestLeftBecauseOfADeath(t *testing.T) {
	left := false
	cfg := small
	cfg.Timeout = 3 * time.Second // longer than it takes to notice the death
	check(t, lateJob(cfg, func(j *testJob, c *mplite.Comm) error {
		switch c.Rank() {
		case 1:
			err := c.Finalize(bg)
			left = true
			return blames("finalize", err)
		case 0:
			if err := j.computes(c, func() bool { return left }); err != nil {
				return err
			}
			_, err := c.Recv(bg, nil, 1, 0)
			if err := blames("receive from a rank that has left", err); err != nil {
				return err
			}
			if want := "rank 1 has left because of it"; !contains(err, want) {
				return fmt.Errorf("receive: %w, want %q in it", err, want)
			}
		}
		return nil
	}))
}

// TestAnnouncedBeforeDeath: of what came from a rank before it died, and waits
// for a receive, whole messages stay; what it had announced is forgotten.
func TestAnnouncedBeforeDeath(t *testing.T) {
	const whole, announced, last = 7, 8, 9
	before := func(c *mplite.Comm) error {
		switch c.Rank() {
		case victim:
			if _, err := c.Isend(make([]byte, 50_000), 0, announced); err != nil {
				return err
			}
			if err := c.Send(bg, content(10, 1), 0, whole); err != nil {
				return err
			}
			if err := c.Send(bg, nil, 0, last); err != nil {
				return err
			}
			_, err := c.Recv(bg, nil, 0, 0) // it has come
			return err
		case 0:
			if _, err := c.Recv(bg, nil, victim, last); err != nil {
				return err
			}
			if _, found, err := c.Iprobe(victim, announced); !found || err != nil {
				return fmt.Errorf("the announcement has not come: %w", err)
			}
			return c.Send(bg, nil, victim, 0)
		}
		return nil
	}
	check(t, killedJob(1, before, func(c *mplite.Comm) error {
		if c.Rank() != 0 {
			return nil
		}
		_, err := c.Recv(bg, nil, victim, last)
		if err := blames("receive", err); err != nil {
			return err
		}
		_, found, err := c.Iprobe(victim, announced)
		if found {
			return errors.New("an announcement of the dead is still there")
		}
		if err := blames("probe", err); err != nil {
			return err
		}
		buf := make([]byte, 10)
		if _, err := c.Recv(bg, buf, victim, whole); err != nil {
			return fmt.Errorf("a whole message of the dead: %w", err)
		}
		return same(buf, 1)
	}))
}
