package mplite_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// TestNilContext: every call that takes a context refuses nil in words, also
// where it would not have had to wait, and does no harm.
func TestNilContext(t *testing.T) {
	var none context.Context
	if _, err := mplite.Init(none, &mplite.Config{Size: 1}); !errors.Is(err, mplite.ErrArgument) {
		t.Errorf("init: %v", err)
	}
	check(t, runJob(2, sim.Options{}, small, func(c *mplite.Comm) error {
		buf, all, counts, sum := make([]byte, 2), make([]byte, 4), []int{2, 2}, mplite.Sum[byte]()
		done, err := c.Isend(nil, c.Rank(), 7)
		if err != nil {
			return err
		}
		reqs := []*mplite.Request{done}
		for what, err := range map[string]error{
			"send":           c.Send(none, nil, 1-c.Rank(), 0),
			"ssend":          c.Ssend(none, nil, 1-c.Rank(), 0),
			"receive":        second(c.Recv(none, nil, 1-c.Rank(), 0)),
			"sendrecv":       second(c.Sendrecv(none, nil, 1-c.Rank(), 0, nil, 1-c.Rank(), 0)),
			"probe":          second(c.Probe(none, c.Rank(), 7)),
			"wait":           second(done.Wait(none)),
			"waitall":        mplite.Waitall(none, reqs, nil),
			"waitany":        waitany(none, reqs),
			"waitsome":       failure(mplite.Waitsome(none, reqs, make([]int, 1), nil)),
			"barrier":        c.Barrier(none),
			"bcast":          c.Bcast(none, buf, 0),
			"reduce":         mplite.Reduce(none, c, buf, buf, sum, 0),
			"allreduce":      mplite.Allreduce(none, c, nil, buf, sum),
			"gather":         mplite.Gather(none, c, buf, all, 0),
			"gatherv":        mplite.Gatherv(none, c, buf, all, counts, 0),
			"scatter":        mplite.Scatter(none, c, all, buf, 0),
			"scatterv":       mplite.Scatterv(none, c, all, counts, buf, 0),
			"allgather":      mplite.Allgather(none, c, buf, all),
			"allgatherv":     mplite.Allgatherv(none, c, buf, all, counts),
			"alltoall":       mplite.Alltoall(none, c, all, all),
			"alltoallv":      mplite.Alltoallv(none, c, all, counts, all, counts),
			"reduce_scatter": mplite.ReduceScatter(none, c, all, buf, counts, sum),
			"scan":           mplite.Scan(none, c, buf, buf, sum),
			"exscan":         mplite.Exscan(none, c, buf, buf, sum),
			"split":          failure(c.Split(none, 0, 0)),
			"dup":            failure(c.Dup(none)),
			"cart":           failure(c.CartCreate(none, []int{2}, []bool{false})),
			"finalize":       c.Finalize(none),
		} {
			if !errors.Is(err, mplite.ErrArgument) || !contains(err, "the context is nil") {
				return fmt.Errorf("%s under a nil context: %w", what, err)
			}
		}
		if err := mplite.Waitall(bg, reqs, nil); err != nil {
			return err
		}
		return c.Barrier(bg)
	}))
}

func waitany(ctx context.Context, reqs []*mplite.Request) error {
	_, _, err := mplite.Waitany(ctx, reqs)
	return err
}

func failure[T any](_ T, err error) error { return err }

// TestZeroOp: a reduction without an operation is refused in words, whatever
// the number of ranks.
func TestZeroOp(t *testing.T) {
	var none mplite.Op[byte]
	for _, size := range []int{1, 2} {
		check(t, runJob(size, sim.Options{}, small, func(c *mplite.Comm) error {
			buf, counts := make([]byte, size), make([]int, size)
			for i := range counts {
				counts[i] = 1
			}
			for what, err := range map[string]error{
				"reduce":         mplite.Reduce(bg, c, buf, buf, none, 0),
				"allreduce":      mplite.Allreduce(bg, c, nil, buf, none),
				"reduce_scatter": mplite.ReduceScatter(bg, c, buf, buf[:1], counts, none),
				"scan":           mplite.Scan(bg, c, buf, buf, none),
				"exscan":         mplite.Exscan(bg, c, buf, buf, none),
			} {
				if !errors.Is(err, mplite.ErrArgument) || !contains(err, what) || !contains(err, "zero Op") {
					return fmt.Errorf("%s: %w", what, err)
				}
			}
			return nil
		}))
	}
}
