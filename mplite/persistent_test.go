package mplite_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// persistentRing makes the requests of a ring exchange: to the next rank and from
// the one before, the sends synchronous or not, and one of each with the null
// process.
func persistentRing(c *mplite.Comm, out, in []byte, sync bool) ([]mplite.Request, error) {
	next, prev := (c.Rank()+1)%c.Size(), (c.Rank()+c.Size()-1)%c.Size()
	send := c.SendInit
	if sync {
		send = c.SsendInit
	}
	recv, err1 := c.RecvInit(in, prev, 3)
	sent, err2 := send(out, next, 3)
	toNone, err3 := send(out, mplite.None, 3)
	fromNone, err4 := c.RecvInit(in, mplite.None, 3)
	return []mplite.Request{recv, sent, toNone, {}, fromNone}, errors.Join(err1, err2, err3, err4)
}

// TestPersistent: persistent requests are started and waited for again and
// again, by every kind of wait, with what is in the buffer then, eager and not,
// with others and within a rank.
func TestPersistent(t *testing.T) {
	waits := []func(reqs []mplite.Request) error{
		func(reqs []mplite.Request) error { return mplite.Waitall(bg, reqs, nil) },
		func(reqs []mplite.Request) error {
			for _, r := range reqs {
				if _, err := r.Wait(bg); err != nil {
					return err
				}
			}
			return nil
		},
		func(reqs []mplite.Request) error {
			for {
				if i, _, err := mplite.Waitany(bg, reqs); i < 0 || err != nil {
					return err
				}
			}
		},
		func(reqs []mplite.Request) error {
			for {
				if n, err := mplite.Waitsome(bg, reqs, make([]int, len(reqs)), nil); n < 0 || err != nil {
					return err
				}
			}
		},
	}
	for _, size := range []int{1, 3} {
		check(t, runJob(size, sim.Options{Loss: 0.02}, small, func(c *mplite.Comm) error {
			for _, n := range []int{0, 100, 5000} {
				for _, sync := range []bool{false, true} {
					out, in := make([]byte, n), make([]byte, n)
					reqs, err := persistentRing(c, out, in, sync)
					if err != nil {
						return err
					}
					for round := range 3 * len(waits) {
						id := func(rank int) uint64 { return uint64(1000*rank + round) }
						copy(out, content(n, id(c.Rank())))
						if err := startThem(reqs); err != nil {
							return err
						}
						if err := waits[round%len(waits)](reqs); err != nil {
							return fmt.Errorf("round %d: %w", round, err)
						}
						if err := same(in, id((c.Rank()+size-1)%size)); err != nil {
							return err
						}
						if err := inactive(reqs); err != nil {
							return err
						}
					}
				}
			}
			return nil
		}))
	}
}

// startThem starts those of reqs that are there, some by Startall.
func startThem(reqs []mplite.Request) error {
	return errors.Join(mplite.Startall(reqs[:3]), reqs[4].Start())
}

// inactive checks that all of reqs are still there and none can be waited for.
func inactive(reqs []mplite.Request) error {
	ended := canceled()
	for i, r := range reqs {
		if r.Null() != (i == 3) {
			return fmt.Errorf("request %d is %v", i, r)
		}
		if st, err := r.Wait(ended); st != empty || err != nil {
			return fmt.Errorf("wait for inactive request %d: %+v, %w", i, st, err)
		}
		if st, done, err := r.Test(); st != empty || !done || err != nil {
			return fmt.Errorf("test of inactive request %d: %+v, %v, %w", i, st, done, err)
		}
	}
	statuses := make([]mplite.Status, len(reqs))
	if err := mplite.Waitall(ended, reqs, statuses); err != nil || statuses[0] != empty {
		return fmt.Errorf("waitall of inactive requests: %v, %w", statuses, err)
	}
	if done, err := mplite.Testall(reqs, nil); !done || err != nil {
		return fmt.Errorf("testall of inactive requests: %v, %w", done, err)
	}
	if i, _, done, err := mplite.Testany(reqs); i != mplite.Undefined || !done || err != nil {
		return fmt.Errorf("testany of inactive requests: %d, %v, %w", i, done, err)
	}
	if n, err := mplite.Testsome(reqs, make([]int, len(reqs)), nil); n != mplite.Undefined || err != nil {
		return fmt.Errorf("testsome of inactive requests: %d, %w", n, err)
	}
	return nil
}

// TestPersistentTyped: the forms for elements, one started a second time too
// early, and what is refused at once.
func TestPersistentTyped(t *testing.T) {
	c, err := mplite.Init(bg, &mplite.Config{})
	check(t, err)
	defer c.Finalize(bg)
	in, out := make([]float64, 2), []float64{1, 2}
	recv, err := mplite.RecvInit(c, in, 0, 1)
	check(t, err)
	for i, init := range []func(c *mplite.Comm, buf []float64, dst, tag int) (mplite.Request, error){mplite.SendInit[float64], mplite.SsendInit[float64]} {
		send, err := init(c, out, 0, 1)
		check(t, err)
		out[1] = float64(i) + 7
		check(t, mplite.Startall([]mplite.Request{recv, send}))
		if err := recv.Start(); !errors.Is(err, mplite.ErrRequest) || !contains(err, "not waited for") {
			t.Errorf("started twice: %v", err)
		}
		check(t, mplite.Waitall(bg, []mplite.Request{send}, nil))
		if st, err := recv.Wait(bg); err != nil || mplite.Elements[float64](st) != 2 || in[1] != out[1] {
			t.Errorf("received %v, %+v, %v", in, st, err)
		}
	}
	once, err := c.Irecv(make([]byte, 1), 0, 9)
	check(t, err)
	err = mplite.Startall([]mplite.Request{recv, once, {}})
	var failed *mplite.RequestsError
	if !errors.As(err, &failed) || failed.Errs[0] != nil || !contains(failed.Errs[1], "not persistent") || !contains(failed.Errs[2], "null") {
		t.Errorf("startall: %v", err)
	}
	once.Cancel()
	recv.Cancel()
	check(t, mplite.Waitall(bg, []mplite.Request{once, recv}, nil))
	for _, err := range []error{third(mplite.SendInit(c, []string{""}, 0, 0)), third(mplite.RecvInit(c, []string{""}, 0, 0))} {
		if !errors.Is(err, mplite.ErrType) {
			t.Errorf("strings: %v", err)
		}
	}
	for _, err := range []error{third(c.SendInit(nil, 1, 0)), third(c.SsendInit(nil, 1, 0)), third(c.RecvInit(nil, 1, 0))} {
		if !errors.Is(err, mplite.ErrRank) {
			t.Errorf("rank 1 of 1: %v", err)
		}
	}
}

// TestPersistentWithTheDead: each start after a rank's death ends with its name.
func TestPersistentWithTheDead(t *testing.T) {
	check(t, killedJob(1, nil, func(c *mplite.Comm) error {
		recv, err := c.RecvInit(make([]byte, 10), victim, 0)
		if err != nil {
			return err
		}
		send, err := c.SsendInit(make([]byte, 5000), victim, 0)
		if err != nil {
			return err
		}
		for range 3 {
			for _, r := range []mplite.Request{recv, send} {
				if err := r.Start(); err != nil {
					return err
				}
				if err := blames("a persistent request", second(r.Wait(bg))); err != nil {
					return err
				}
			}
		}
		return nil
	}))
}

// TestCancel: what has not met its other side is cancelled and leaves no trace;
// anything else ends as if nobody had asked.
func TestCancel(t *testing.T) {
	c, err := mplite.Init(bg, &mplite.Config{EagerSize: 64})
	check(t, err)
	defer c.Finalize(bg)
	want := mplite.Status{Source: mplite.AnySource, Tag: mplite.AnyTag, Canceled: true}
	cancelled := func(what string, r mplite.Request, err error) {
		t.Helper()
		check(t, err)
		r.Cancel()
		if st, err := r.Wait(bg); st != want || err != nil {
			t.Errorf("%s: %+v, %v", what, st, err)
		}
	}
	buf := make([]byte, 100)
	r, err := c.Irecv(buf, mplite.AnySource, mplite.AnyTag)
	cancelled("receive from anybody", r, err)
	r, err = c.Irecv(buf, 0, 1)
	cancelled("receive", r, err)
	r, err = c.Issend(buf, 0, 1)
	cancelled("synchronous send to oneself", r, err)
	again, err := c.RecvInit(buf, 0, 1)
	check(t, err)
	for range 2 {
		check(t, again.Start())
		cancelled("persistent receive", again, nil)
	}
	again.Cancel() // inactive
	mplite.Request{}.Cancel()
	if _, found, _ := c.Iprobe(0, mplite.AnyTag); found {
		t.Error("a cancelled send can be probed")
	}
	r, err = c.Irecv(buf, 0, 1)
	check(t, err)
	check(t, c.Send(bg, []byte("met"), 0, 1))
	r.Cancel()
	if st, err := r.Wait(bg); err != nil || st != (mplite.Status{Tag: 1, Count: 3}) {
		t.Errorf("cancelled too late: %+v, %v", st, err)
	}
	r, err = c.Issend([]byte("met"), 0, 1)
	check(t, err)
	m, err := c.Mprobe(bg, 0, 1)
	check(t, err)
	r.Cancel()
	if st, err := m.Mrecv(bg, buf); err != nil || st.Count != 3 {
		t.Errorf("a message that had been matched was cancelled: %+v, %v", st, err)
	}
	if st, err := r.Wait(bg); err != nil || st.Canceled {
		t.Errorf("its send: %+v, %v", st, err)
	}
}

// TestCancelRemote: a cancelled receive takes no message, the next one does;
// one whose message is under way is not cancelled.
func TestCancelRemote(t *testing.T) {
	j := newJob(2, sim.Options{}, small)
	j.start(func(c *mplite.Comm) error {
		if c.Rank() == 1 {
			if _, err := c.Recv(bg, nil, 0, 9); err != nil {
				return err
			}
			return errors.Join(c.Send(bg, content(100, 1), 0, 1), c.Send(bg, content(5000, 2), 0, 2))
		}
		var reqs []mplite.Request
		small, large := make([]byte, 100), make([]byte, 5000)
		for _, recv := range []struct {
			buf []byte
			tag int
		}{{make([]byte, 100), 1}, {small, 1}, {large, 2}} {
			r, err := c.Irecv(recv.buf, 1, recv.tag)
			if err != nil {
				return err
			}
			reqs = append(reqs, r)
		}
		reqs[0].Cancel()
		if err := c.Send(bg, nil, 1, 9); err != nil {
			return err
		}
		if _, err := reqs[1].Wait(bg); err != nil {
			return err
		}
		for c.Pending().Receives[0].State != "to be written to" {
			if _, done, err := reqs[2].Test(); done || err != nil {
				return fmt.Errorf("the large message has come at once: %w", err)
			}
			if err := j.computesFor(c, time.Microsecond); err != nil {
				return err
			}
		}
		reqs[2].Cancel()
		statuses := make([]mplite.Status, 3)
		if err := mplite.Waitall(bg, []mplite.Request{reqs[0], {}, reqs[2]}, statuses); err != nil {
			return err
		}
		if !statuses[0].Canceled || statuses[2].Canceled {
			return fmt.Errorf("they ended with %+v", statuses)
		}
		return errors.Join(same(small, 1), same(large, 2))
	})
	check(t, j.run())
}

// TestFree: what a freed request has started goes on, the request is of no more
// use, and nothing is kept of it.
func TestFree(t *testing.T) {
	check(t, runJob(2, sim.Options{}, small, func(c *mplite.Comm) error {
		peer := 1 - c.Rank()
		for round := range 50 {
			out, in := content(3000, uint64(round)), make([]byte, 3000)
			send, err := c.Isend(out, peer, 1)
			if err != nil {
				return err
			}
			again, err := c.RecvInit(in, peer, 1)
			if err != nil {
				return err
			}
			if err := errors.Join(again.Start(), again.Free(), send.Free()); err != nil {
				return err
			}
			for what, err := range map[string]error{
				"wait": second(again.Wait(bg)), "start": again.Start(), "free": again.Free(), "waitall": mplite.Waitall(bg, []mplite.Request{again}, nil),
			} {
				if !errors.Is(err, mplite.ErrRequest) {
					return fmt.Errorf("%s of a freed request: %w", what, err)
				}
			}
			for done := []uint8{0}; done[0] == 0; { // until both ranks have nothing to do
				if p := c.Pending(); p.NumReceives+p.NumSends == 0 {
					done[0] = 1
				}
				if err := mplite.Allreduce(bg, c, nil, done, mplite.Min[uint8]()); err != nil {
					return err
				}
			}
			if err := same(in, uint64(round)); err != nil {
				return err
			}
		}
		if n := mplite.Requests(c); n > 20 {
			return fmt.Errorf("%d requests are kept", n)
		}
		return nil
	}))
}
