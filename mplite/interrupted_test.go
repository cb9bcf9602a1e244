package mplite_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// TestInterruptedSaysWhat: the error of a wait that a context ends says what was waited for,
// with rank and tag, and belongs to the class of the context's error.
func TestInterruptedSaysWhat(t *testing.T) {
	j := newJob(3, sim.Options{}, small)
	j.start(func(c *mplite.Comm) error {
		sub, err := c.Split(bg, c.Rank()%2, 0)
		if err != nil {
			return err
		}
		if c.Rank() != 0 {
			return j.computesFor(c, time.Minute)
		}
		irecv := func(src, tag int) mplite.Request {
			r, err := c.Irecv(make([]byte, 8), src, tag)
			check(t, err)
			return r
		}
		reqs := []mplite.Request{irecv(1, 4), irecv(2, 5)}
		for _, tt := range []struct {
			want string
			call func(ctx context.Context) error
		}{
			{"mplite: receive from rank 1, tag 7: ", func(ctx context.Context) error { _, err := c.Recv(ctx, nil, 1, 7); return err }},
			{"mplite: receive from rank any, tag any: ", func(ctx context.Context) error {
				_, err := c.Recv(ctx, nil, mplite.AnySource, mplite.AnyTag)
				return err
			}},
			{"mplite: receive from rank 1, tag 7: ", func(ctx context.Context) error { _, err := sub.Recv(ctx, nil, 1, 7); return err }},
			{"mplite: send to rank 2, tag 3: ", func(ctx context.Context) error { return c.Ssend(ctx, nil, 2, 3) }},
			{"mplite: send to rank 0, tag 3: ", func(ctx context.Context) error { return c.Ssend(ctx, nil, 0, 3) }},
			{"mplite: receive from rank 2, tag 9: ", func(ctx context.Context) error {
				_, err := c.Sendrecv(ctx, nil, 1, 9, nil, 2, 9)
				return err
			}},
			{"mplite: probe for a message from rank 2, tag any: ", func(ctx context.Context) error {
				_, err := c.Probe(ctx, 2, mplite.AnyTag)
				return err
			}},
			{"mplite: receive from rank 2, tag 5: ", func(ctx context.Context) error { _, err := reqs[1].Wait(ctx); return err }},
			{"mplite: receive from rank 1, tag 4: ", func(ctx context.Context) error { return mplite.Waitall(ctx, reqs, nil) }},
			{"mplite: receive from rank 1, tag 4: ", func(ctx context.Context) error { _, _, err := mplite.Waitany(ctx, reqs); return err }},
			{"mplite: receive from rank 1, tag 4: ", func(ctx context.Context) error {
				_, err := mplite.Waitsome(ctx, reqs, make([]int, 2), nil)
				return err
			}},
			{"mplite: bcast of 2 bytes from root 1, call 4 of a collective on the communicator: receive from rank 1: ", func(ctx context.Context) error {
				return c.Bcast(ctx, make([]byte, 2), 1)
			}},
			{"mplite: barrier, call 5 of a collective on the communicator: receive from rank 2: ", func(ctx context.Context) error {
				r, err := c.Ibarrier()
				check(t, err)
				_, err = r.Wait(ctx)
				return err
			}},
		} {
			ctx, cancel := c.NIC().WithTimeout(bg, time.Second)
			err := tt.call(ctx)
			cancel()
			if !errors.Is(err, vipl.ErrTimeout) || !strings.HasPrefix(fmt.Sprint(err), tt.want) {
				t.Errorf("got %v, want %s...", err, tt.want)
			}
		}
		return errKilled
	})
	j.runKilled()
}
