package mplite_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// TestBlackhole loses all frames for five seconds, in the middle of traffic and
// on idle connections: with the default PeerTimeout, nobody is dead after it
// and nothing is lost.
func TestBlackhole(t *testing.T) {
	const hole = int64(5 * time.Second)
	for _, idle := range []bool{false, true} {
		t.Run(fmt.Sprint("idle=", idle), func(t *testing.T) {
			seeds(t, 12, func(seed uint64) error {
				j := newJob(3, sim.Options{Seed: seed, Bandwidth: 1e9, Loss: 0.01}, mplite.Config{EagerSize: 1024, Credits: 8})
				begin := sim.Start + int64(50*time.Millisecond) + int64(seed)*int64(time.Millisecond)/7
				j.Script(func(now int64, _, _ *sim.Station, _ []byte) sim.Action {
					return sim.Action{Drop: now >= begin && now < begin+hole}
				})
				j.start(func(c *mplite.Comm) error {
					if j.Now() >= begin {
						return fmt.Errorf("Init was not over at %v: this tests nothing", time.Duration(begin-sim.Start))
					}
					if idle {
						if err := j.computesFor(c, time.Duration(begin+hole-j.Now())); err != nil {
							return err
						}
					}
					for id, now := uint64(0), int64(0); now < begin+hole; id++ {
						if err := around(c, id); err != nil {
							return err
						}
						latest := []int64{j.Now()} // on any rank: all stop after the same round
						if err := mplite.Allreduce(bg, c, nil, latest, mplite.Max[int64]()); err != nil {
							return err
						}
						now = latest[0]
					}
					return nil
				})
				return j.run()
			})
		})
	}
}

// around passes messages, eager and not, around the ranks.
func around(c *mplite.Comm, id uint64) error {
	next, prev := (c.Rank()+1)%c.Size(), (c.Rank()+c.Size()-1)%c.Size()
	for _, n := range []int{100, 20_000} {
		in := make([]byte, n)
		if _, err := c.Sendrecv(bg, content(n, id), next, 1, in, prev, 1); err != nil {
			return err
		}
		if err := same(in, id); err != nil {
			return err
		}
	}
	return nil
}
