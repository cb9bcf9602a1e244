package mplite_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
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

// TestWaitallFirstError: of several requests that fail, the first one's error
// is returned, and the others are waited for.
func TestWaitallFirstError(t *testing.T) {
	c, err := mplite.Init(bg, &mplite.Config{})
	check(t, err)
	var reqs []mplite.Request
	for tag, room := range []int{10, 5, 3, 10} { // the second and third are too short
		r, err := c.Irecv(make([]byte, room), 0, tag)
		check(t, err)
		reqs = append(reqs, r)
		check(t, c.Send(bg, make([]byte, 10), 0, tag))
	}
	var short *mplite.TruncateError
	if err := mplite.Waitall(bg, reqs, nil); !errors.As(err, &short) || short.Tag != 1 {
		t.Errorf("got %v, want that the message with tag 1 does not fit", err)
	}
	for i, r := range reqs {
		if !r.Null() {
			t.Errorf("request %d was not waited for", i)
		}
	}
	check(t, c.Finalize(bg))
}

// TestTestall: it ends none of the requests before the last is done, and then
// all; nil ones are passed over, and the first error is told.
func TestTestall(t *testing.T) {
	j := newJob(2, sim.Options{}, small)
	j.start(func(c *mplite.Comm) error {
		if c.Rank() == 1 { // sends in the wrong order, the second message much later
			if err := c.Send(bg, content(8, 2), 0, 2); err != nil {
				return err
			}
			if err := j.computesFor(c, time.Second); err != nil {
				return err
			}
			return c.Send(bg, content(2000, 1), 0, 1) // a rendezvous: Testall has to answer
		}
		bufs := [][]byte{make([]byte, 2000), make([]byte, 4)} // the second is too short
		reqs := make([]mplite.Request, 4)
		for i, buf := range bufs {
			var err error
			if reqs[1+i], err = c.Irecv(buf, 1, 1+i); err != nil {
				return err
			}
		}
		var err error
		statuses, before := make([]mplite.Status, len(reqs)), slices.Clone(reqs)
		for pending, done := 0, false; !done; pending++ {
			if done, err = mplite.Testall(reqs, statuses); !done && (err != nil || !slices.Equal(reqs, before)) {
				return fmt.Errorf("not done, but %v and requests %v, which were %v", err, reqs, before)
			}
			if done && pending < 100 {
				return fmt.Errorf("done at call %d, before the last message was sent", pending)
			}
			if err := j.computesFor(c, time.Millisecond); err != nil {
				return err
			}
		}
		var short *mplite.TruncateError
		if !errors.As(err, &short) || short.Tag != 2 {
			return fmt.Errorf("the first error is %v, want that of tag 2", err)
		}
		if want := []mplite.Status{empty, {Source: 1, Tag: 1, Count: 2000}, {Source: 1, Tag: 2, Count: 4}, empty}; !slices.Equal(statuses, want) {
			return fmt.Errorf("statuses %v, want %v", statuses, want)
		}
		if !slices.Equal(reqs, make([]mplite.Request, len(reqs))) {
			return fmt.Errorf("requests left: %v", reqs)
		}
		if done, err := mplite.Testall(reqs, nil); !done || err != nil {
			return fmt.Errorf("Testall of no requests: %v, %v", done, err)
		}
		return same(bufs[0], 1)
	})
	check(t, j.run())
}

// TestRequestTwice: whoever asks for a completion that has been reported is
// told so, and does not wait for another one.
func TestRequestTwice(t *testing.T) {
	c, err := mplite.Init(bg, &mplite.Config{})
	check(t, err)
	r, err := c.Isend(nil, 0, 1)
	check(t, err)
	if _, err := r.Wait(bg); err != nil {
		t.Fatal(err)
	}
	ctx := canceled()
	_, err = r.Wait(ctx)
	_, tested, testErr := r.Test()
	allTested, allErr := mplite.Testall([]mplite.Request{r}, nil)
	index, _, anyErr := mplite.Waitany(ctx, []mplite.Request{{}, r})
	for _, err := range []error{err, testErr, allErr, anyErr, mplite.Waitall(ctx, []mplite.Request{r}, nil)} {
		if !errors.Is(err, mplite.ErrRequest) {
			t.Errorf("%v, want ErrRequest", err)
		}
	}
	if !tested || !allTested || index != 1 {
		t.Errorf("Test: %v, Testall: %v, Waitany: %d, want true, true, 1", tested, allTested, index)
	}
}

// TestStaleRequest: a request that has been waited for or freed gets ErrRequest from
// every call, and takes nothing from the operation that uses its memory meanwhile.
func TestStaleRequest(t *testing.T) {
	c, err := mplite.Init(bg, &mplite.Config{})
	check(t, err)
	waited, err := c.Irecv(make([]byte, 1), 0, 1)
	check(t, err)
	check(t, c.Send(bg, []byte("a"), 0, 1))
	if _, err := waited.Wait(bg); err != nil {
		t.Fatal(err)
	}
	freed, err := c.Isend([]byte("b"), 0, 2)
	check(t, err)
	check(t, freed.Free())
	buf := make([]byte, 1)
	next, err := c.Irecv(buf, 0, 1)
	check(t, err)
	if n := mplite.Requests(c); n != 2 { // one more for c.Send
		t.Fatalf("%d requests, so none has been used again", n)
	}
	misuse := func() {
		t.Helper()
		for what, r := range map[string]mplite.Request{"waited for": waited, "freed": freed} {
			for name, err := range calls(r) {
				if !errors.Is(err, mplite.ErrRequest) {
					t.Errorf("%s with a request that was %s: %v, want ErrRequest", name, what, err)
				}
			}
			r.Cancel()
		}
	}
	misuse()
	check(t, c.Send(bg, []byte("c"), 0, 1))
	misuse()
	if st, err := next.Wait(bg); err != nil || st != (mplite.Status{Tag: 1, Count: 1}) || buf[0] != 'c' {
		t.Errorf("the live request: %+v, %v, %q", st, err, buf)
	}
	if _, err := c.Recv(bg, buf, 0, 2); err != nil || buf[0] != 'b' {
		t.Errorf("what the freed request sent: %q, %v", buf, err)
	}
	check(t, c.Finalize(bg))
}

// calls makes every call with r that may report its end.
func calls(r mplite.Request) map[string]error {
	ctx, one := canceled(), func() []mplite.Request { return []mplite.Request{{}, r} }
	indices := make([]int, 2)
	_, wait := r.Wait(ctx)
	_, _, test := r.Test()
	_, testall := mplite.Testall(one(), nil)
	_, _, waitany := mplite.Waitany(ctx, one())
	_, _, _, testany := mplite.Testany(one())
	_, waitsome := mplite.Waitsome(ctx, one(), indices, nil)
	_, testsome := mplite.Testsome(one(), indices, nil)
	return map[string]error{
		"Wait": wait, "Test": test, "Testall": testall, "Waitany": waitany, "Testany": testany, "Waitsome": waitsome, "Testsome": testsome,
		"Waitall": mplite.Waitall(ctx, one(), nil), "Start": r.Start(), "Free": r.Free(),
	}
}

// TestStaleWhileWaiting: of two goroutines that wait for one request one gets its
// completion and the other ErrRequest, also when the request is used again at once.
func TestStaleWhileWaiting(t *testing.T) {
	c, err := mplite.Init(bg, &mplite.Config{})
	check(t, err)
	r, err := c.Irecv(make([]byte, 1), 0, 1)
	check(t, err)
	ended := make(chan error, 2)
	ctx, cancel := context.WithCancel(bg)
	defer cancel()
	for range 2 {
		go func() {
			_, err := r.Wait(ctx)
			if err == nil {
				_, err = c.Irecv(make([]byte, 1), 0, 2) // takes the memory of r
			}
			ended <- err
		}()
	}
	for c.Pending().Following < 2 {
		runtime.Gosched()
	}
	check(t, c.Send(bg, []byte("a"), 0, 1))
	first, second := <-ended, <-ended
	if first != nil {
		first, second = second, first
	}
	if first != nil || !errors.Is(second, mplite.ErrRequest) {
		t.Errorf("the two waits ended with %v and %v", first, second)
	}
	check(t, c.Finalize(bg))
}
