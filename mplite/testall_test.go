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
