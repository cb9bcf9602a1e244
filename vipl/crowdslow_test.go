package vipl_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/seam"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// slowCrowd is many VIs that connect at once to a server that is not scheduled for a while
// again and again.
type slowCrowd struct {
	*world
	server ethertype.Addr
	every  time.Duration // how often the server looks at its NIC
	count  int
	over   bool
	frames float64 // sent by both sides, for each connection
	drops  uint64  // frames that the rings had no room for
	took   time.Duration
	idle   time.Duration // how long all do nothing then
	asked  uint64        // frames that are sent meanwhile,
	lost   uint64        // and that the rings have no room for
}

func (c *slowCrowd) run(opts sim.Options) error {
	c.world = newWorld(opts)
	c.server = ethertype.Addr{MAC: c.node("server", nil, c.serve).MAC(), Port: service}
	c.node("clients", nil, c.connect)
	return c.world.run()
}

// serve accepts all requests, each time that it is scheduled.
func (c *slowCrowd) serve(n *vipl.NIC) error {
	l, err := n.Listen(service)
	if err != nil {
		return err
	}
	for !c.over {
		for n.Poll(); seam.Link(n).Ready(); { // a poll takes in no more than a batch
			n.Poll()
		}
		for {
			r, err := l.Poll()
			if errors.Is(err, vipl.ErrNotDone) {
				break
			} else if err != nil {
				return err
			}
			v, err := n.CreateVI(nil, nil, nil)
			if err != nil {
				return err
			}
			if err := r.AcceptStart(v); err != nil {
				return err
			}
		}
		c.Sleep(c.every)
	}
	return nil
}

// connect has all VIs connect at once, and counts what was sent until they are.
func (c *slowCrowd) connect(n *vipl.NIC) error {
	driveFor(n, time.Millisecond)
	began := n.Now()
	vis := make([]*vipl.VI, c.count)
	for i := range vis {
		var err error
		if vis[i], err = n.CreateVI(nil, nil, nil); err != nil {
			return err
		}
		if err := vis[i].ConnectStart(c.server, nil); err != nil {
			return err
		}
	}
	for i, v := range vis {
		for v.ConnectDone() == vipl.ErrNotDone {
			seam.Link(n).Wait(n.Now() + int64(time.Millisecond))
		}
		if err := v.ConnectDone(); err != nil {
			return fmt.Errorf("VI %d: %w", i, err)
		}
	}
	s := c.Stats()
	c.frames, c.drops, c.took = float64(s.Sent)/float64(c.count), s.RxFull, time.Duration(n.Now()-began)
	driveFor(n, c.idle)
	end := c.Stats()
	c.over, c.asked, c.lost = true, end.Sent-s.Sent, end.RxFull-s.RxFull
	for i, v := range vis {
		if v.State() != vipl.StateConnected {
			return fmt.Errorf("VI %d is %v: %w", i, v.State(), v.Err())
		}
	}
	return nil
}

// TestIdleCrowd: VIs that fell silent at the same time do not ask all at once whether their peers live:
// the ring of a server that looks at its NIC fifty times a second has no room for as much, and
// they took it for dead.
func TestIdleCrowd(t *testing.T) {
	seeds(t, 2, func(seed uint64) error {
		crowd := &slowCrowd{every: 20 * time.Millisecond, count: 1000, idle: time.Minute}
		err := crowd.run(sim.Options{Seed: seed, MTU: 1500, RxSlots: 64})
		t.Logf("seed %d: in a minute %d frames, of which %d were dropped", seed, crowd.asked, crowd.lost)
		if err == nil && crowd.lost > crowd.asked/100 {
			err = fmt.Errorf("%d of %d frames were dropped", crowd.lost, crowd.asked)
		}
		return err
	})
}

// TestSlowCrowd: where a server looks at its NIC twenty times a second, or a hundred times, what is
// sent is not sent again and again until it does. A connection takes six frames. Where
// frames get lost on a fast network they are sent again soon.
func TestSlowCrowd(t *testing.T) {
	for _, c := range []struct {
		every  time.Duration
		slots  int
		loss   float64
		frames float64 // at most, for each connection
		took   time.Duration
	}{
		{50 * time.Millisecond, 64, 0, 8, 7 * time.Second},
		{50 * time.Millisecond, 256, 0, 8, 2 * time.Second},
		{50 * time.Millisecond, 256, 0.05, 9, 3 * time.Second},
		{10 * time.Millisecond, 256, 0, 8, time.Second},
		{10 * time.Microsecond, 256, 0, 6, 10 * time.Millisecond},
		{10 * time.Microsecond, 256, 0.1, 8, 400 * time.Millisecond},
	} {
		t.Run(fmt.Sprintf("%v/slots=%d/loss=%v", c.every, c.slots, c.loss), func(t *testing.T) {
			seeds(t, 4, func(seed uint64) error {
				crowd := &slowCrowd{every: c.every, count: 600}
				if err := crowd.run(sim.Options{Seed: seed, MTU: 1500, RxSlots: c.slots, Loss: c.loss}); err != nil {
					return err
				}
				t.Logf("seed %d: %.2f frames for each connection, %d dropped, after %v", seed, crowd.frames, crowd.drops, crowd.took)
				if crowd.frames > c.frames || crowd.drops > uint64(crowd.count)/4 || crowd.took > c.took {
					return fmt.Errorf("%.2f frames for each connection, %d dropped, after %v; want %v, %d and %v at most",
						crowd.frames, crowd.drops, crowd.took, c.frames, crowd.count/4, c.took)
				}
				return nil
			})
		})
	}
}
