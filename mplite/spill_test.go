package mplite_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// TestSpillLetsOthersThrough: a message arrives behind three times as many
// unexpected ones as there are receive buffers, because those move out to the
// spill pool.
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
