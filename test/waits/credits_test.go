package waits_test

import (
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// burst sends many messages at once, more than the credits with which a connection on first use begins, and then waits
// for one answer. The first run only connects the ranks.
func burst(s *segment, n node, rank int) error {
	messages := 1
	if s.warm == s.nodes {
		messages = 64
	}
	m := n.(*mpliteNode)
	requests := make([]mplite.Request, messages)
	for i := range requests {
		var err error
		if rank == 0 {
			requests[i], err = m.comm.Isend(m.out, 1, 1)
		} else {
			requests[i], err = m.comm.Irecv(m.in, 0, 1)
		}
		if err != nil {
			return err
		}
	}
	for _, r := range requests {
		if _, err := r.Wait(background); err != nil {
			return err
		}
	}
	answer := m.recv
	if rank == 1 {
		answer = m.send
	}
	if err := answer(1 - rank); err != nil {
		return err
	}
	s.took = s.Now() - s.began
	return nil
}

// TestGrowingCreditsWait: while the credits of a connection on first use grow, no message waits for a timer. A burst
// takes at most ten round trips more than on a connection that has all credits from the start.
func TestGrowingCreditsWait(t *testing.T) {
	need.Simulated(t)
	opts := sim.Options{MTU: 9000, Delay: linkDelay, Bandwidth: linkSpeed}
	for _, size := range []int{1, 257, 5000, 65536} {
		for _, tuning := range []*reliability.Config{nil, {AckDelay: int64(time.Second)}} {
			var took [2]time.Duration
			for i, connect := range []mplite.Connect{mplite.Ahead, mplite.OnUse} {
				var err error
				if took[i], err = measure(opts, tuning, pattern{"burst", 2, burst}, size, openMPLite(connect)); err != nil {
					t.Fatal(err)
				}
			}
			t.Logf("%d bytes: %v with all credits, %v with growing ones", size, took[0], took[1])
			if took[1] > took[0]+10*roundTrip {
				t.Errorf("a burst of %d bytes each takes %v with growing credits, %v with all of them (delay of acknowledgements: %+v)", size, took[1], took[0], tuning)
			}
		}
	}
}
