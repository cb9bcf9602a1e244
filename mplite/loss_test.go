package mplite_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// TestLossyStream: a lost frame costs a stream of long messages, which are written to
// the receiver's memory, little more than itself.
func TestLossyStream(t *testing.T) {
	for _, size := range []int{32 << 10, 256 << 10} {
		without, with := streamTime(t, size, 0), streamTime(t, size, 0.01)
		if with > without*3/2 {
			t.Errorf("%d bytes: with one frame of a hundred lost it takes %v, without loss %v", size, with, without)
		}
	}
}

// streamTime returns how long messages take from one rank to another, eight at a
// time.
func streamTime(t *testing.T, size int, loss float64) (took time.Duration) {
	t.Helper()
	const window, rounds = 8, 10
	j := newJob(2, sim.Options{Seed: 1, Loss: loss, Delay: 5 * time.Microsecond, Bandwidth: 10_000_000_000}, mplite.Config{})
	j.start(func(c *mplite.Comm) error {
		if err := c.Barrier(bg); err != nil {
			return err
		}
		began, start := j.Now(), c.Isend
		if c.Rank() == 1 {
			start = c.Irecv
		}
		bufs := make([]byte, window*size)
		for range rounds {
			var reqs []mplite.Request
			for i := range window {
				r, err := start(bufs[i*size:][:size], 1-c.Rank(), 0)
				if err != nil {
					return err
				}
				reqs = append(reqs, r)
			}
			if err := mplite.Waitall(bg, reqs, nil); err != nil {
				return err
			}
		}
		took = max(took, time.Duration(j.Now()-began))
		return nil
	})
	if err := j.run(); err != nil {
		t.Fatal(err)
	}
	return took
}

// TestHeavyLoss: where half of the frames are lost, as behind two wires that lose 30 % each, an allreduce
// of 80 KB among eight ranks takes a few seconds at most.
func TestHeavyLoss(t *testing.T) {
	const ranks, most = 8, 4 * time.Second
	seeds(t, 2, func(seed uint64) error {
		j := newJob(ranks, sim.Options{Seed: seed, Loss: 0.51, Delay: 5 * time.Microsecond, Bandwidth: 10_000_000_000}, mplite.Config{Config: job.Config{Timeout: time.Minute}})
		var took time.Duration
		j.start(func(c *mplite.Comm) error {
			if err := c.Barrier(bg); err != nil {
				return err
			}
			began := j.Now()
			send, recv := make([]float64, 10_000), make([]float64, 10_000)
			err := mplite.Allreduce(bg, c, send, recv, mplite.Sum[float64]())
			took = max(took, time.Duration(j.Now()-began))
			return err
		})
		if err := j.run(); err != nil {
			return err
		}
		if took > most {
			t.Errorf("seed %d: it takes %v, want %v", seed, took, most)
		}
		return nil
	})
}

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

// TestLastAckLost: rank 1 says goodbye before rank 0 does, and its goodbye is on its way
// while that of rank 0 leaves. It arrives, and nothing behind it does: neither that rank 1 has
// heard rank 0's goodbye, nor that it has gone. Rank 0 does not wait for that until its Timeout
// is over, and Finalize reports no failure.
func TestLastAckLost(t *testing.T) {
	cfg := small
	cfg.Timeout, cfg.PeerTimeout = patience, patience
	j := newJob(2, sim.Options{}, cfg)
	ending, goodbye, lost := false, false, 0
	j.Script(func(_ int64, from, _ *sim.Station, frame []byte) sim.Action {
		if !ending || from == j.stations[0] {
			return sim.Action{}
		}
		if goodbye {
			lost++
			return sim.Action{Drop: true}
		}
		if saysBye(frame) {
			goodbye = true
			return sim.Action{Delay: 5 * time.Millisecond}
		}
		return sim.Action{Delay: time.Millisecond} // so that rank 1 is through the barrier first
	})
	for rank := range 2 {
		j.host(fmt.Sprint("rank ", rank), func(nic *vipl.NIC) error {
			began := int64(0)
			err := j.rank(nic, rank, func(c *mplite.Comm) error {
				j.Sleep(100 * time.Millisecond) // all of Init has been acknowledged
				ending, began = true, j.Now()
				return nil
			})
			if took := time.Duration(j.Now() - began); err == nil && took > patience/2 {
				return fmt.Errorf("it took %v to finalize", took)
			}
			return err
		})
	}
	if check(t, j.run()); !goodbye || lost == 0 {
		t.Errorf("rank 1 has said goodbye: %v; %d frames behind that were lost", goodbye, lost)
	}
}

// saysBye reports whether a frame is the message by which a rank leaves.
func saysBye(frame []byte) bool {
	var h ethertype.Header
	payload, err := h.Parse(frame)
	if err != nil || h.Kind != ethertype.KindData || h.Flags&ethertype.FlagPacked != 0 {
		return false
	}
	word, ok := mplite.Hear(payload)
	return ok && word.Kind == mplite.KindBye
}
