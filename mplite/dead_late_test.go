package mplite_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// Deaths that a rank learns of late: it has computed meanwhile, and finds the
// word in one batch with what was sent before, or in the midst of an operation.

// lateJob is a job of four in which the victim dies 20 ms after all have joined.
// The others run fn and stay until all have.
func lateJob(cfg mplite.Config, fn func(j *testJob, c *mplite.Comm) error) error {
	cfg.PeerTimeout = time.Second
	j := newJob(4, sim.Options{}, cfg)
	j.start(func(c *mplite.Comm) error {
		if err := c.Barrier(bg); err != nil {
			return err
		}
		if c.Rank() == victim {
			if err := j.computesFor(c, 20*time.Millisecond); err != nil {
				return err
			}
			j.Kill(j.stations[victim])
			return errKilled
		}
		if err := j.computesFor(c, time.Millisecond); err != nil { // until nobody is in the barrier
			return err
		}
		began := j.Now()
		if err := fn(j, c); err != nil {
			return err
		}
		if took := time.Duration(j.Now() - began); took > 5*time.Second {
			return fmt.Errorf("it took %v of virtual time to end", took)
		}
		j.stays(c, 3)
		return errKilled
	})
	return j.runKilled()
}

// comesLate has a rank compute until another one has learned of a death, and
// its word has come.
func (j *testJob) comesLate(c *mplite.Comm, learned *bool) error {
	if err := j.computes(c, func() bool { return *learned }); err != nil {
		return err
	}
	return j.computesFor(c, 10*time.Millisecond)
}

// clog sends to rank dst, which receives nothing, until it has no more room.
func clog(c *mplite.Comm, dst int) error {
	for {
		r, err := c.Isend([]byte{1}, dst, 99)
		if err != nil {
			return err
		}
		if _, done, err := r.Test(); err != nil || !done {
			return err
		}
	}
}

// credits returns how many messages a rank has room for.
func credits(c *mplite.Comm, rank int) int {
	for _, p := range c.Pending().Peers {
		if p.Rank == rank {
			return p.Credits
		}
	}
	return 1 // not worth a mention
}

// noSpill lets few messages through.
var noSpill = mplite.Config{EagerSize: 1024, Credits: 2, SpillLimit: -1}

// TestDeathBetweenReceives: a rank that comes late to an allreduce finds its
// neighbour's message of the first round and the word of the death at the same
// time. Its partner of the second round lives, but has left the allreduce.
func TestDeathBetweenReceives(t *testing.T) {
	failed := false
	check(t, lateJob(small, func(j *testJob, c *mplite.Comm) error {
		const late, neighbour = 1, 0
		if c.Rank() == late {
			if err := j.comesLate(c, &failed); err != nil {
				return err
			}
		}
		err := mplite.Allreduce(bg, c, nil, []uint64{1}, mplite.Sum[uint64]())
		failed = failed || c.Rank() == neighbour
		return blames(fmt.Sprintf("rank %d: allreduce", c.Rank()), err)
	}))
}

// TestDeathBeforeASend: the same in a broadcast by rank 1. Rank 3 has the
// message and would pass it on to rank 0, which has left and takes nothing more.
func TestDeathBeforeASend(t *testing.T) {
	failed := false
	check(t, lateJob(noSpill, func(j *testJob, c *mplite.Comm) error {
		const root, late, last = 1, 3, 0
		if c.Rank() == late {
			if err := clog(c, last); err != nil {
				return err
			}
			if err := j.comesLate(c, &failed); err != nil {
				return err
			}
		}
		err := c.Bcast(bg, make([]byte, 100), root)
		failed = failed || c.Rank() == last
		if err == nil && c.Rank() == root { // who sends it need not know
			return nil
		}
		return blames(fmt.Sprintf("rank %d: broadcast", c.Rank()), err)
	}))
}

// TestDeathHeardBySend: the word of a death is found by a broadcast's send that
// looks for credits. The record of that send serves the next receive, and must
// not be sent from its buffer.
func TestDeathHeardBySend(t *testing.T) {
	told, ended := false, false
	full := 0
	check(t, lateJob(noSpill, func(j *testJob, c *mplite.Comm) error {
		switch c.Rank() {
		case 3:
			_, err := c.Recv(bg, nil, victim, 1)
			told = true
			if err := blames("receive", err); err != nil {
				return err
			}
			if err := j.computes(c, func() bool { return ended }); err != nil {
				return err
			}
			return c.Send(bg, []byte("from rank 3"), 0, 5)
		case 1:
			if err := j.computes(c, func() bool { return ended }); err != nil {
				return err
			}
			for range full {
				if _, err := c.Recv(bg, make([]byte, 1), 0, 99); err != nil {
					return err
				}
			}
			return tellsNothing(j, c)
		}
		for ; credits(c, 1) > 0; full++ {
			if err := c.Send(bg, []byte{1}, 1, 99); err != nil {
				return err
			}
		}
		if err := j.comesLate(c, &told); err != nil {
			return err
		}
		if err := blames("broadcast", c.Bcast(bg, make([]byte, 8), 0)); err != nil {
			return err
		}
		buf := []byte("rank 0's own")
		r, err := c.Irecv(buf, 3, 5)
		if err != nil {
			return err
		}
		ended = true
		st, err := r.Wait(bg)
		if err != nil || st.Source != 3 || string(buf[:st.Count]) != "from rank 3" {
			return fmt.Errorf("the receive got %q: %+v, %v", buf[:st.Count], st, err)
		}
		return nil
	}))
}

// tellsNothing returns an error if a message for rank 1 comes that nobody sent.
func tellsNothing(j *testJob, c *mplite.Comm) error {
	for range 10 {
		if err := j.computesFor(c, 10*time.Millisecond); err != nil {
			return err
		}
		if st, found, _ := c.Iprobe(0, mplite.AnyTag); found {
			return fmt.Errorf("rank 0 sent %+v", st)
		}
	}
	return nil
}

// TestDeathWithdrawsABroadcast: a rank has cleared the message of a broadcast
// that its sender withdraws, because the sender knows of a death. That is to be
// named, not the withdrawal.
func TestDeathWithdrawsABroadcast(t *testing.T) {
	failed := false
	check(t, lateJob(small, func(j *testJob, c *mplite.Comm) error {
		const root, late = 1, 0
		if c.Rank() == late {
			if err := j.comesLate(c, &failed); err != nil {
				return err
			}
		}
		err := c.Bcast(bg, make([]byte, 20_000), root)
		failed = failed || c.Rank() == root
		return blames(fmt.Sprintf("rank %d: broadcast", c.Rank()), err)
	}))
}

// TestDeathLeavesASend: a Sendrecv from the dead to the living fails, but what
// it sends arrives.
func TestDeathLeavesASend(t *testing.T) {
	const n = 20_000
	failed := false
	check(t, lateJob(small, func(j *testJob, c *mplite.Comm) error {
		switch c.Rank() {
		case 0:
			_, err := c.Recv(bg, nil, victim, 1)
			failed = true
			if err := blames("receive", err); err != nil {
				return err
			}
			_, err = c.Sendrecv(bg, content(n, 1), 1, 5, nil, victim, 5)
			return blames("sendrecv", err)
		case 1:
			if err := j.comesLate(c, &failed); err != nil {
				return err
			}
			buf := make([]byte, n)
			if _, err := c.Recv(bg, buf, 0, 5); err != nil {
				return fmt.Errorf("receive from the living: %w", err)
			}
			return same(buf, 1)
		}
		return nil
	}))
}

// TestDeathEndsAProbe: one that waits for any source, like such a receive; so does
// every later one, of either kind, until the death is acknowledged on that very
// communicator. Then they wait for the living again.
func TestDeathEndsAProbe(t *testing.T) {
	acked := false
	check(t, lateJob(small, func(j *testJob, c *mplite.Comm) error {
		switch c.Rank() {
		case 0:
			_, err := c.Probe(bg, mplite.AnySource, 1)
			if err := blames("probe", err); err != nil {
				return err
			}
			if err := unacknowledged(c); err != nil {
				return err
			}
			if failed := c.AckFailed(); !slices.Equal(failed, []int{victim}) {
				return fmt.Errorf("ranks %v have failed, want %d", failed, victim)
			}
			r, err := c.Irecv(nil, mplite.AnySource, 2)
			if err != nil {
				return err
			}
			acked = true
			st, err := c.Probe(bg, mplite.AnySource, 1)
			if err != nil || st.Source != 1 {
				return fmt.Errorf("the probe after that found %+v, %v", st, err)
			}
			if st, err := r.Wait(bg); err != nil || st.Source != 1 {
				return fmt.Errorf("the receive after that got %+v, %v", st, err)
			}
		case 1:
			if err := j.computes(c, func() bool { return acked }); err != nil {
				return err
			}
			return errors.Join(c.Send(bg, nil, 0, 1), c.Send(bg, nil, 0, 2))
		}
		return nil
	}))
}

// unacknowledged tries all that waits for any source.
func unacknowledged(c *mplite.Comm) error {
	_, _, polled := c.Iprobe(mplite.AnySource, 1)
	posted, err := c.Irecv(nil, mplite.AnySource, 1)
	if err != nil {
		return err
	}
	return errors.Join(
		blames("the next probe", second(c.Probe(bg, mplite.AnySource, 1))),
		blames("a probe that does not wait", polled),
		blames("the next receive", second(c.Recv(bg, nil, mplite.AnySource, 1))),
		blames("a posted receive", second(posted.Wait(bg))))
}

// TestAnnouncementOfTheDead: ranks 1 and 2 lose each other, so that rank 0 hears
// from rank 1 that rank 2 is dead, and finds an announcement of rank 2 after
// that. A receive from any source must not wait for what it announces, when
// there is a message from rank 1.
func TestAnnouncementOfTheDead(t *testing.T) {
	cfg := small
	cfg.PeerTimeout = time.Second
	told := false
	j := newJob(3, sim.Options{}, cfg)
	talk := func(c *mplite.Comm) error {
		switch c.Rank() {
		case 1:
			j.Partition(j.stations[1], j.stations[2], true)
			_, err := c.Recv(bg, nil, 2, 1)
			told = true
			if !errors.Is(err, mplite.ErrRankFailed) {
				return fmt.Errorf("receive from beyond the cut: %v", err)
			}
			if err := j.computesFor(c, 100*time.Millisecond); err != nil {
				return err
			}
			return c.Send(bg, []byte{1}, 0, 9)
		case 2:
			if err := j.comesLate(c, &told); err != nil {
				return err
			}
			_, err := c.Isend(make([]byte, 50_000), 0, 9)
			return err
		}
		if err := j.computes(c, func() bool { return told }); err != nil {
			return err
		}
		if err := j.computesFor(c, 200*time.Millisecond); err != nil {
			return err
		}
		c.Iprobe(0, 0)
		ctx, cancel := c.NIC().WithTimeout(bg, time.Second)
		defer cancel()
		st, err := c.Recv(ctx, make([]byte, 50_000), mplite.AnySource, 9)
		if err != nil || st.Source != 1 {
			return fmt.Errorf("receive from any source: %+v, %v", st, err)
		}
		return nil
	}
	j.start(func(c *mplite.Comm) error {
		if err := c.Barrier(bg); err != nil {
			return err
		}
		if err := talk(c); err != nil {
			return err
		}
		j.stays(c, 3)
		return errKilled
	})
	check(t, j.runKilled())
}

// survivors is a job of five that goes on when the victim has died: each of the others runs
// fn when it knows that, and then finalizes.
func survivors(fn func(j *testJob, c *mplite.Comm) error, finalized func(c *mplite.Comm, err error) error) error {
	cfg := small
	cfg.PeerTimeout = time.Second
	j := newJob(5, sim.Options{}, cfg)
	j.start(func(c *mplite.Comm) error {
		if err := c.Barrier(bg); err != nil {
			return err
		}
		if c.Rank() == victim {
			if err := j.computesFor(c, 20*time.Millisecond); err != nil { // what it has sent arrives
				return err
			}
			j.Kill(j.stations[victim])
			return errKilled
		}
		if _, err := c.Recv(bg, nil, victim, 1); blames("receive", err) != nil {
			return blames("receive", err)
		}
		err := fn(j, c)
		if err == nil {
			err = finalized(c, c.Finalize(bg))
		}
		if err == nil {
			err = errKilled // who is dead to others, or has finalized, need not do so again
		}
		return err
	})
	return j.runKilled()
}

func acknowledge(c *mplite.Comm) error {
	if failed := c.AckFailed(); !slices.Equal(failed, []int{victim}) {
		return fmt.Errorf("ranks %v have failed, want %d", failed, victim)
	}
	return nil
}

// TestFinalizeAmongTheLiving: Finalize of ranks that have acknowledged a death succeeds,
// and waits for one that still works and sends them what they have asked for.
func TestFinalizeAmongTheLiving(t *testing.T) {
	var j *testJob
	late, lateUntil := 3, int64(0)
	check(t, survivors(func(in *testJob, c *mplite.Comm) error {
		j = in
		if err := acknowledge(c); err != nil || c.Rank() != late {
			return err
		}
		if err := j.computesFor(c, 5*time.Second); err != nil {
			return err
		}
		lateUntil = j.Now()
		return nil
	}, func(c *mplite.Comm, err error) error {
		if err == nil && j.Now() < lateUntil || lateUntil == 0 {
			err = fmt.Errorf("rank %d did not wait for rank %d: %w", c.Rank(), late, err)
		}
		return err
	}))
}

// TestFinalizeUnacknowledged: a rank that has not acknowledged the death gets its error, and
// the others do not.
func TestFinalizeUnacknowledged(t *testing.T) {
	const careless = 4
	check(t, survivors(func(_ *testJob, c *mplite.Comm) error {
		if c.Rank() == careless {
			return nil
		}
		return acknowledge(c)
	}, func(c *mplite.Comm, err error) error {
		if c.Rank() == careless {
			return blames("Finalize", err)
		}
		return err
	}))
}

// TestDeathInFinalize: a rank that dies while others finalize without the dead is named.
func TestDeathInFinalize(t *testing.T) {
	const second = 1
	check(t, survivors(func(j *testJob, c *mplite.Comm) error {
		if err := acknowledge(c); err != nil || c.Rank() != second {
			return err
		}
		if err := j.computesFor(c, time.Second); err != nil {
			return err
		}
		j.Kill(j.stations[second])
		return errKilled
	}, func(_ *mplite.Comm, err error) error {
		var failed *mplite.RankError
		if !errors.As(err, &failed) || failed.Rank != second {
			return fmt.Errorf("Finalize: %w, want that rank %d has failed", err, second)
		}
		return nil
	}))
}
