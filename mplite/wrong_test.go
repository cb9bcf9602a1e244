package mplite_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// refusesNil returns an error unless each call has refused a nil context in words.
func refusesNil(calls map[string]error) error {
	for what, err := range calls {
		if !errors.Is(err, mplite.ErrArgument) || !contains(err, "the context is nil") {
			return fmt.Errorf("%s under a nil context: %w", what, err)
		}
	}
	return nil
}

// TestNilContext: every call about messages that takes a context refuses nil in words,
// also where it would not have had to wait, and does no harm.
func TestNilContext(t *testing.T) {
	var none context.Context
	if _, err := mplite.Init(none, &mplite.Config{Config: job.Config{Size: 1}}); !errors.Is(err, mplite.ErrArgument) {
		t.Errorf("init: %v", err)
	}
	check(t, runJob(2, sim.Options{}, small, func(c *mplite.Comm) error {
		buf, to := make([]byte, 2), 1-c.Rank()
		done, err := c.Isend(nil, c.Rank(), 7)
		if err != nil {
			return err
		}
		taken, err := c.Isend(nil, c.Rank(), 8)
		if err != nil {
			return err
		}
		m, found, err := c.Improbe(c.Rank(), 8)
		if err != nil || !found {
			return fmt.Errorf("a message to oneself: found %v, %w", found, err)
		}
		v, err := mplite.NewVector(buf, 2, 1, 1)
		if err != nil {
			return err
		}
		reqs := []mplite.Request{done, taken}
		err = refusesNil(map[string]error{
			"send":           c.Send(none, nil, to, 0),
			"ssend":          c.Ssend(none, nil, to, 0),
			"receive":        second(c.Recv(none, nil, to, 0)),
			"sendrecv":       second(c.Sendrecv(none, nil, to, 0, nil, to, 0)),
			"replace":        second(c.SendrecvReplace(none, nil, to, 0, to, 0)),
			"typed send":     mplite.Send(none, c, buf, to, 0),
			"typed receive":  second(mplite.Recv(none, c, buf, to, 0)),
			"typed replace":  second(mplite.SendrecvReplace(none, c, buf, to, 0, to, 0)),
			"vector send":    v.Send(none, c, to, 0),
			"vector ssend":   v.Ssend(none, c, to, 0),
			"vector receive": second(v.Recv(none, c, to, 0)),
			"vector both":    second(v.Sendrecv(none, c, to, 0, v, to, 0)),
			"probe":          second(c.Probe(none, c.Rank(), 7)),
			"mprobe":         failure(c.Mprobe(none, c.Rank(), 7)),
			"mrecv":          second(m.Mrecv(none, nil)),
			"typed mrecv":    second(mplite.Mrecv(none, m, buf)),
			"wait":           second(done.Wait(none)),
			"waitall":        mplite.Waitall(none, reqs, nil),
			"waitany":        waitany(none, reqs),
			"waitsome":       failure(mplite.Waitsome(none, reqs, make([]int, 1), nil)),
			"finalize":       c.Finalize(none),
		})
		if err != nil {
			return err
		}
		if _, err := m.Mrecv(bg, nil); err != nil {
			return fmt.Errorf("the matched message is lost: %w", err)
		}
		if _, err := c.Recv(bg, nil, c.Rank(), 7); err != nil {
			return err
		}
		return errors.Join(mplite.Waitall(bg, reqs, nil), c.Barrier(bg))
	}))
}

// TestNilContextOfCollectives: so does every collective.
func TestNilContextOfCollectives(t *testing.T) {
	var none context.Context
	check(t, runJob(2, sim.Options{}, small, func(c *mplite.Comm) error {
		buf, all, counts, sum := make([]byte, 2), make([]byte, 4), []int{2, 2}, mplite.Sum[byte]()
		grid, err := c.CartCreate(bg, []int{2}, []bool{false})
		if err != nil {
			return err
		}
		err = refusesNil(map[string]error{
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
			"create":         failure(c.CommCreate(none, c.Group())),
			"cart":           failure(c.CartCreate(none, []int{2}, []bool{false})),
			"cart dup":       failure(grid.Dup(none)),
			"cart sub":       failure(grid.Sub(none, []bool{true})),
		})
		return errors.Join(err, c.Barrier(bg), grid.Barrier(bg))
	}))
}

func waitany(ctx context.Context, reqs []mplite.Request) error {
	_, _, err := mplite.Waitany(ctx, reqs)
	return err
}

func failure[T any](_ T, err error) error { return err }

// TestZeroOp: a reduction without an operation is refused in words, whatever
// the number of ranks, in both forms of the call.
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

				"reduce (nonblocking)":         failure(mplite.Ireduce(c, buf, buf, none, 0)),
				"allreduce (nonblocking)":      failure(mplite.Iallreduce(c, nil, buf, none)),
				"reduce_scatter (nonblocking)": failure(mplite.IreduceScatter(c, buf, buf[:1], counts, none)),
				"scan (nonblocking)":           failure(mplite.Iscan(c, buf, buf, none)),
				"exscan (nonblocking)":         failure(mplite.Iexscan(c, buf, buf, none)),
			} {
				what, _, _ = strings.Cut(what, " (")
				if !errors.Is(err, mplite.ErrArgument) || !contains(err, what) || !contains(err, "zero Op") {
					return fmt.Errorf("%s: %w", what, err)
				}
			}
			return nil
		}))
	}
}

// TestWrongCommunicator: the communicators of Init and Self cannot be freed, and only
// the first one can be finalized. A refused call changes nothing.
func TestWrongCommunicator(t *testing.T) {
	check(t, runJob(3, sim.Options{}, small, func(c *mplite.Comm) error {
		dup, err := c.Dup(bg)
		if err != nil {
			return err
		}
		for what, err := range map[string]error{
			"Free of the first":   c.Free(),
			"Free of Self":        c.Self().Free(),
			"Finalize of Self":    c.Self().Finalize(bg),
			"Finalize of another": dup.Finalize(bg),
		} {
			if !errors.Is(err, mplite.ErrComm) {
				return fmt.Errorf("%s: %w, want ErrComm", what, err)
			}
		}
		return errors.Join(c.Self().Send(bg, nil, 0, 1), dup.Barrier(bg), dup.Free(), c.Barrier(bg))
	}))
}

// TestNoFunction: an operation without a function is refused where it is made.
func TestNoFunction(t *testing.T) {
	defer func() {
		if said := fmt.Sprint(recover()); !strings.Contains(said, "NewOp: the function of the operation is nil") {
			t.Errorf("NewOp ended with %q", said)
		}
	}()
	mplite.NewOp[int](true, nil)
}
