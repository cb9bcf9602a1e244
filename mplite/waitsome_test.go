package mplite_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// empty is the status of a null request.
var empty = mplite.Status{Source: mplite.AnySource, Tag: mplite.AnyTag}

// TestNullRequests: every wait and test of a null request returns at once, alone or
// among others.
func TestNullRequests(t *testing.T) {
	ended := canceled()
	var null mplite.Request
	if st, err := null.Wait(ended); st != empty || err != nil {
		t.Errorf("Wait: %+v, %v", st, err)
	}
	if st, done, err := null.Test(); st != empty || !done || err != nil {
		t.Errorf("Test: %+v, %v, %v", st, done, err)
	}
	for _, reqs := range [][]mplite.Request{{}, {null}, {null, {}}} {
		statuses, indices := make([]mplite.Status, len(reqs)), make([]int, len(reqs))
		if err := mplite.Waitall(ended, reqs, statuses); err != nil || slices.ContainsFunc(statuses, func(st mplite.Status) bool { return st != empty }) {
			t.Errorf("Waitall: %+v, %v", statuses, err)
		}
		if done, err := mplite.Testall(reqs, nil); !done || err != nil {
			t.Errorf("Testall: %v, %v", done, err)
		}
		if i, st, err := mplite.Waitany(ended, reqs); i != mplite.Undefined || st != empty || err != nil {
			t.Errorf("Waitany: %d, %+v, %v", i, st, err)
		}
		if i, st, done, err := mplite.Testany(reqs); i != mplite.Undefined || st != empty || !done || err != nil {
			t.Errorf("Testany: %d, %+v, %v, %v", i, st, done, err)
		}
		if n, err := mplite.Waitsome(ended, reqs, indices, statuses); n != mplite.Undefined || err != nil {
			t.Errorf("Waitsome: %d, %v", n, err)
		}
		if n, err := mplite.Testsome(reqs, indices, statuses); n != mplite.Undefined || err != nil {
			t.Errorf("Testsome: %d, %v", n, err)
		}
	}
	c, err := mplite.Init(bg, &mplite.Config{})
	check(t, err)
	defer c.Finalize(bg)
	one := func() []mplite.Request {
		r, err := c.Isend([]byte("x"), 0, 1)
		check(t, err)
		return []mplite.Request{{}, {}, r, {}}
	}
	if i, _, err := mplite.Waitany(bg, one()); i != 2 || err != nil {
		t.Errorf("Waitany among nulls: %d, %v", i, err)
	}
	if i, _, done, err := mplite.Testany(one()); i != 2 || !done || err != nil {
		t.Errorf("Testany among nulls: %d, %v, %v", i, done, err)
	}
	indices := make([]int, 4)
	if n, err := mplite.Waitsome(bg, one(), indices, nil); n != 1 || indices[0] != 2 || err != nil {
		t.Errorf("Waitsome among nulls: %d, %v, %v", n, indices, err)
	}
	if n, err := mplite.Testsome(one(), indices, nil); n != 1 || indices[0] != 2 || err != nil {
		t.Errorf("Testsome among nulls: %d, %v, %v", n, indices, err)
	}
	check(t, mplite.Waitall(bg, one(), nil))
}

// TestEachRequestsError: every call over several requests tells the error of each,
// and which did well.
func TestEachRequestsError(t *testing.T) {
	c, err := mplite.Init(bg, &mplite.Config{})
	check(t, err)
	defer c.Finalize(bg)
	for name, wait := range map[string]func(reqs []mplite.Request) error{
		"Waitall": func(reqs []mplite.Request) error { return mplite.Waitall(bg, reqs, nil) },
		"Testall": func(reqs []mplite.Request) error { _, err := mplite.Testall(reqs, nil); return err },
		"Waitsome": func(reqs []mplite.Request) error {
			_, err := mplite.Waitsome(bg, reqs, make([]int, 5), nil)
			return err
		},
		"Testsome": func(reqs []mplite.Request) error { _, err := mplite.Testsome(reqs, make([]int, 5), nil); return err },
	} {
		reqs := []mplite.Request{{}}
		for tag, room := range []int{10, 5, 10} { // the second is too short
			r, err := c.Irecv(make([]byte, room), 0, tag)
			check(t, err)
			reqs = append(reqs, r)
			check(t, c.Send(bg, make([]byte, 10), 0, tag))
		}
		r, err := mplite.Irecv(c, make([]int32, 1), 0, 4)
		check(t, err)
		check(t, mplite.Send(bg, c, []float32{1}, 0, 4))
		reqs = append(reqs, r)
		err = wait(reqs)
		var failed *mplite.RequestsError
		if !errors.As(err, &failed) || len(failed.Errs) != 5 || !errors.Is(err, mplite.ErrInStatus) ||
			!errors.Is(err, mplite.ErrTruncate) || !errors.Is(err, mplite.ErrType) || !contains(err, "2 of 5 requests failed; request 2: ") {
			t.Fatalf("%s: %v", name, err)
		}
		for i, class := range []error{nil, nil, mplite.ErrTruncate, nil, mplite.ErrType} {
			if !errors.Is(failed.Errs[i], class) {
				t.Errorf("%s: request %d ended with %v, want %v", name, i, failed.Errs[i], class)
			}
		}
		if slices.ContainsFunc(reqs, func(r mplite.Request) bool { return !r.Null() }) {
			t.Errorf("%s left requests", name)
		}
	}
}

// TestWaitallEndsEarly: when the context ends, what failed before is told beside
// it, and what has not ended can be waited for again.
func TestWaitallEndsEarly(t *testing.T) {
	c, err := mplite.Init(bg, &mplite.Config{})
	check(t, err)
	defer c.Finalize(bg)
	short, err := c.Irecv(make([]byte, 1), 0, 1)
	check(t, err)
	late, err := c.Irecv(make([]byte, 1), 0, 2)
	check(t, err)
	check(t, c.Send(bg, make([]byte, 2), 0, 1))
	reqs := []mplite.Request{short, late}
	err = mplite.Waitall(canceled(), reqs, nil)
	if !errors.Is(err, mplite.ErrTruncate) || !errors.Is(err, context.Canceled) || !reqs[0].Null() || reqs[1].Null() {
		t.Errorf("%v, left are %v", err, reqs)
	}
	check(t, c.Send(bg, make([]byte, 1), 0, 2))
	check(t, mplite.Waitall(bg, reqs, nil))
}

// TestWaitsome: messages that come at random times are all reported, each once,
// with its own status, by each way to wait for some or any of many.
func TestWaitsome(t *testing.T) {
	const n = 24
	for name, some := range map[string]func(j *testJob, c *mplite.Comm, reqs []mplite.Request, indices []int, statuses []mplite.Status) (int, error){
		"Waitsome": func(_ *testJob, _ *mplite.Comm, reqs []mplite.Request, indices []int, statuses []mplite.Status) (int, error) {
			return mplite.Waitsome(bg, reqs, indices, statuses)
		},
		"Testsome": func(j *testJob, c *mplite.Comm, reqs []mplite.Request, indices []int, statuses []mplite.Status) (int, error) {
			if err := j.computesFor(c, time.Millisecond); err != nil {
				return 0, err
			}
			return mplite.Testsome(reqs, indices, statuses)
		},
		"Testany": func(j *testJob, c *mplite.Comm, reqs []mplite.Request, indices []int, statuses []mplite.Status) (int, error) {
			if err := j.computesFor(c, time.Millisecond); err != nil {
				return 0, err
			}
			i, st, done, err := mplite.Testany(reqs)
			indices[0], statuses[0] = i, st
			switch {
			case !done:
				return 0, err
			case i == mplite.Undefined:
				return i, err
			}
			return 1, err
		},
	} {
		seeds(t, 3, func(seed uint64) error {
			j := newJob(2, sim.Options{Seed: seed, Jitter: 100 * time.Microsecond}, small)
			j.start(func(c *mplite.Comm) error {
				rng := rand.New(rand.NewPCG(seed, 3))
				order := rng.Perm(n)
				if c.Rank() == 1 {
					for _, tag := range order {
						if err := c.Send(bg, content(tag*100, uint64(tag)), 0, tag); err != nil {
							return err
						}
						if err := j.computesFor(c, time.Duration(rng.IntN(3))*time.Millisecond); err != nil {
							return err
						}
					}
					return nil
				}
				return takeSome(c, n, func(reqs []mplite.Request, indices []int, statuses []mplite.Status) (int, error) {
					return some(j, c, reqs, indices, statuses)
				})
			})
			if err := j.run(); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			return nil
		})
	}
}

// takeSome receives n messages, of 100 bytes times their tag, and checks what
// some reports.
func takeSome(c *mplite.Comm, n int, some func(reqs []mplite.Request, indices []int, statuses []mplite.Status) (int, error)) error {
	reqs, bufs := make([]mplite.Request, n), make([][]byte, n)
	for tag := range reqs {
		bufs[tag] = make([]byte, tag*100)
		var err error
		if reqs[tag], err = c.Irecv(bufs[tag], 1, tag); err != nil {
			return err
		}
	}
	indices, statuses := make([]int, n), make([]mplite.Status, n)
	for left := n; ; {
		k, err := some(reqs, indices, statuses)
		if err != nil {
			return err
		}
		if k == mplite.Undefined {
			if left > 0 {
				return fmt.Errorf("nothing is left to wait for, but %d messages are", left)
			}
			return nil
		}
		for i, tag := range indices[:k] {
			left--
			if want := (mplite.Status{Source: 1, Tag: tag, Count: tag * 100}); statuses[i] != want || !reqs[tag].Null() {
				return fmt.Errorf("request %d ended with %+v", tag, statuses[i])
			}
			if err := same(bufs[tag], uint64(tag)); err != nil {
				return err
			}
		}
	}
}
