package mplite_test

import (
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
	const messages = 48 // the acknowledgements find bounce buffers, and half of all data credits is owed
	j := newJob(2, sim.Options{}, mplite.Config{EagerSize: 64, Credits: 64})
	j.start(func(c *mplite.Comm) error {
		for range 2 { // returns the credits of the hellos
			if err := c.Barrier(bg); err != nil {
				return err
			}
		}
		if err := j.computesFor(c, time.Millisecond); err != nil { // until neither is in the barrier
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
		if err := j.computesFor(c, 10*time.Millisecond); err != nil { // until all have come
			return err
		}
		ctx, cancel := c.NIC().WithTimeout(bg, time.Second)
		defer cancel()
		return mplite.Waitall(ctx, reqs, nil)
	})
	check(t, j.run())
}
