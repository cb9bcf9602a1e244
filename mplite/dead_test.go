package mplite_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// errKilled ends a rank without Finalize.
var errKilled = errors.New("killed")

const victim = 2

// killedJob runs fn on every rank of five but the victim, whose station
// vanishes when it has joined the job and done what it does before.
func killedJob(seed uint64, before, fn func(c *mplite.Comm) error) error {
	cfg := small
	cfg.PeerTimeout = time.Second
	j := newJob(5, sim.Options{Seed: seed}, cfg)
	j.start(func(c *mplite.Comm) error {
		if before != nil {
			if err := before(c); err != nil {
				return err
			}
		}
		if c.Rank() == victim {
			if err := j.Sleep(20 * time.Millisecond); err != nil { // what it has sent arrives
				return err
			}
			j.Kill(j.stations[victim])
			return errKilled
		}
		began := j.Now()
		if err := fn(c); err != nil {
			return err
		}
		if took := time.Duration(j.Now() - began); took > 10*time.Second {
			return fmt.Errorf("it took %v of virtual time to end", took)
		}
		j.stays(c, 4)
		return errKilled // without Finalize, whose barrier must fail
	})
	return j.runKilled()
}

// blames returns an error unless err says that the victim failed.
func blames(what string, err error) error {
	var re *mplite.RankError
	if !errors.As(err, &re) || !errors.Is(err, mplite.ErrRankFailed) || re.Rank != victim {
		return fmt.Errorf("%s ended with %v, want a RankError of rank %d", what, err, victim)
	}
	return nil
}

func TestDeadRankEndsPointToPoint(t *testing.T) {
	big := make([]byte, 100_000)
	for what, op := range map[string]func(c *mplite.Comm) error{
		"receive":           func(c *mplite.Comm) error { _, err := c.Recv(bg, big, victim, 1); return err },
		"wildcard receive":  func(c *mplite.Comm) error { _, err := c.Recv(bg, big, mplite.AnySource, 1); return err },
		"probe":             func(c *mplite.Comm) error { _, err := c.Probe(bg, victim, 1); return err },
		"synchronous send":  func(c *mplite.Comm) error { return c.Ssend(bg, big[:10], victim, 1) },
		"rendezvous":        func(c *mplite.Comm) error { return c.Send(bg, big, victim, 1) },
		"sendrecv":          func(c *mplite.Comm) error { _, err := c.Sendrecv(bg, big, victim, 1, big[:0], victim, 1); return err },
		"many small sends":  func(c *mplite.Comm) error { return sendUntilError(c, victim) },
		"pending requests":  pendingRequests,
		"and then a second": func(c *mplite.Comm) error { c.Ssend(bg, nil, victim, 1); return c.Send(bg, nil, victim, 1) },
	} {
		if err := killedJob(1, nil, func(c *mplite.Comm) error { return blames(what, op(c)) }); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func sendUntilError(c *mplite.Comm, dst int) error {
	for range 1000 {
		if err := c.Send(bg, make([]byte, 500), dst, 1); err != nil {
			return err
		}
	}
	return nil
}

func pendingRequests(c *mplite.Comm) error {
	var reqs []mplite.Request
	for tag := range 20 {
		r, err := c.Irecv(make([]byte, 10), victim, tag)
		if err != nil {
			return err
		}
		s, err := c.Isend(make([]byte, 1500*(tag%2)), victim, tag)
		if err != nil {
			return err
		}
		reqs = append(reqs, r, s)
	}
	return mplite.Waitall(bg, reqs, nil)
}

// TestDeadRankEndsCollectives: some ranks wait for others that wait for the
// victim; all must learn it.
func TestDeadRankEndsCollectives(t *testing.T) {
	seeds(t, 4, func(seed uint64) error {
		for _, check := range checks {
			err := killedJob(seed, nil, func(c *mplite.Comm) error {
				var err error
				for range 3 { // a rank may be through with the first before it knows
					if err = check.run(c, 3000); err != nil {
						break
					}
				}
				return blames(check.name, err)
			})
			if err != nil {
				return fmt.Errorf("%s, seed %d: %w", check.name, seed, err)
			}
		}
		return nil
	})
}

// TestTheLivingGoOn: after a death, messages between the others flow, and
// collectives on communicators without the victim work.
func TestTheLivingGoOn(t *testing.T) {
	subs := map[int]*mplite.Comm{}
	err := killedJob(1, func(c *mplite.Comm) error {
		color := 0
		if c.Rank() == victim {
			color = 1
		}
		sub, err := c.Split(bg, color, 0)
		subs[c.Rank()] = sub
		return err
	}, func(c *mplite.Comm) error {
		if err := blames("barrier", c.Barrier(bg)); err != nil {
			return err
		}
		if err := blames("second barrier", c.Barrier(bg)); err != nil {
			return err
		}
		if got := c.Snapshot().RanksFailed; got != 1 {
			return fmt.Errorf("%d ranks failed, want 1", got)
		}
		next, prev := map[int]int{0: 1, 1: 3, 3: 4, 4: 0}, map[int]int{1: 0, 3: 1, 4: 3, 0: 4}
		for _, n := range sizes {
			in := make([]byte, n)
			if _, err := c.Sendrecv(bg, content(n, 1), next[c.Rank()], 9, in, prev[c.Rank()], 9); err != nil {
				return fmt.Errorf("among the living: %w", err)
			}
			if err := same(in, 1); err != nil {
				return err
			}
		}
		for _, check := range checks {
			if err := check.run(subs[c.Rank()], 3000); err != nil {
				return fmt.Errorf("%s without the victim: %w", check.name, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestCutBetweenTwo: two ranks that lose each other, and nobody else, end a
// collective for the ranks that still reach both.
func TestCutBetweenTwo(t *testing.T) {
	cfg := small
	cfg.PeerTimeout = time.Second
	j := newJob(4, sim.Options{}, cfg)
	j.start(func(c *mplite.Comm) error {
		if err := c.Barrier(bg); err != nil {
			return err
		}
		if c.Rank() == 0 {
			j.Partition(j.stations[0], j.stations[1], true)
		}
		err := c.Barrier(bg)
		for err == nil { // until the cut is noticed
			err = c.Barrier(bg)
		}
		var re *mplite.RankError
		if !errors.As(err, &re) || re.Rank > 1 {
			t.Errorf("rank %d: barrier ended with %v, want a RankError of rank 0 or 1", c.Rank(), err)
		}
		if now := time.Duration(j.Now() - sim.Start); now > 5*time.Second {
			t.Errorf("rank %d noticed at %v", c.Rank(), now)
		}
		if c.Rank() < 2 { // stays until the others, having been told, have left
			if _, err := c.Recv(bg, nil, 3, 9); err == nil {
				t.Errorf("rank %d received from rank 3, which sends nothing", c.Rank())
			}
		}
		return errKilled
	})
	check(t, j.Run())
}

// TestExitWithoutFinalize: a rank whose NIC is closed in order, but without
// Finalize, is dead at once and not after the peer timeout.
func TestExitWithoutFinalize(t *testing.T) {
	j := newJob(3, sim.Options{}, small)
	j.start(func(c *mplite.Comm) error {
		if c.Rank() == victim {
			return errKilled
		}
		began := j.Now()
		if err := blames("receive", func() error { _, err := c.Recv(bg, nil, victim, 0); return err }()); err != nil {
			t.Error(err)
		}
		if took := time.Duration(j.Now() - began); took > 100*time.Millisecond {
			t.Errorf("rank %d noticed after %v", c.Rank(), took)
		}
		return errKilled
	})
	if err := j.Run(); err != nil {
		t.Fatal(err)
	}
}

// TestAbort: one rank's Abort ends the operations of all others, which hear of its code, and
// its process with a code that is not 0, whatever the system takes of it.
func TestAbort(t *testing.T) {
	for code, exits := range map[int]int{7: 7, 0: 1, 256: 1, -1: 255} {
		cfg := small
		cfg.Exit = func(got int) {
			if got != exits {
				t.Errorf("Abort(%d) ends the process with %d, want %d", code, got, exits)
			}
		}
		j := newJob(4, sim.Options{}, cfg)
		j.start(func(c *mplite.Comm) error {
			if c.Rank() == victim {
				c.Abort(code)
				return errKilled
			}
			err := c.Barrier(bg)
			var ae *mplite.AbortError
			if !errors.As(err, &ae) || !errors.Is(err, mplite.ErrAborted) || ae.Rank != victim || ae.Code != code {
				t.Errorf("rank %d: barrier ended with %v, want an AbortError of rank %d with code %d", c.Rank(), err, victim, code)
			}
			return errKilled
		})
		if err := j.Run(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestMissingRank: Init names the ranks that do not come.
func TestMissingRank(t *testing.T) {
	w := sim.New(sim.Options{})
	for rank := range 3 {
		if rank == 0 {
			continue
		}
		station := w.Station(fmt.Sprint("rank ", rank))
		w.Go(station.String(), func() {
			nic, err := vipl.Open(t.Context(), &vipl.Config{Link: station, Seed: 1})
			if err != nil {
				t.Error(err)
				return
			}
			defer nic.Close()
			_, err = mplite.Init(bg, &mplite.Config{Config: job.Config{Job: "j", Rank: rank, Size: 3, NIC: nic, Timeout: 2 * time.Second}})
			if want := `rank 0 of job "j" did not appear within 2s`; !errors.Is(err, mplite.ErrInit) || !contains(err, want) {
				t.Errorf("rank %d: %v, want %q in it", rank, err, want)
			}
		})
	}
	if err := w.Run(); err != nil {
		t.Fatal(err)
	}
}
