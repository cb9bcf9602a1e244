package mplite_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// TestOutage: a message that is under way when the network goes arrives when that
// comes back within Config.PeerTimeout, however many tries have failed meanwhile. One
// that does not come back ends the job about when PeerTimeout is over.
func TestOutage(t *testing.T) {
	const timeout = time.Minute
	for _, outage := range []time.Duration{timeout * 3 / 4, 10 * timeout} {
		t.Run(outage.String(), func(t *testing.T) {
			cfg := small
			cfg.PeerTimeout = timeout
			j := newJob(2, sim.Options{}, cfg)
			j.start(func(c *mplite.Comm) error { return outlast(j, c, outage, timeout) })
			check(t, j.runKilled())
		})
	}
}

// outlast sends and receives a message while the network is gone.
func outlast(j *testJob, c *mplite.Comm, outage, timeout time.Duration) error {
	const from = sim.Start + int64(time.Second)
	if c.Rank() == 0 {
		j.At(from, func() { j.Isolate(j.stations[0]) })
		j.At(from+int64(outage), j.Heal)
	}
	if err := j.computes(c, func() bool { return j.Now() > from }); err != nil {
		return err
	}
	buf := make([]byte, 3000)
	_, err := c.Sendrecv(bg, content(len(buf), uint64(c.Rank())), 1-c.Rank(), 0, buf, 1-c.Rank(), 0)
	if outage < timeout {
		return errors.Join(err, same(buf, uint64(1-c.Rank())))
	}
	took := time.Duration(j.Now() - from)
	if !errors.Is(err, mplite.ErrRankFailed) || took < timeout-time.Second || took > timeout+timeout/4 { // it was heard last before that
		return fmt.Errorf("the exchange ended after %v: %w", took, err)
	}
	return errKilled
}
