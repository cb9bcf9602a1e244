package mplite_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/transport/sim"
)

var fromNone = mplite.Status{Source: mplite.None, Tag: mplite.AnyTag}

// TestNullProcess: every send to it and receive from it ends at once, without a
// message and without touching the buffer.
func TestNullProcess(t *testing.T) {
	const none = mplite.None
	c, err := mplite.Init(bg, &mplite.Config{})
	check(t, err)
	buf, nums := []byte{1, 2, 3}, []int32{4, 5, 6}
	never := canceled() // nothing waits
	waited := func(r mplite.Request, err error) (mplite.Status, error) {
		if err != nil {
			return mplite.Status{}, err
		}
		return r.Wait(never)
	}
	check(t, errors.Join(c.Send(never, buf, none, 1), c.Ssend(never, buf, none, 1),
		mplite.Send(never, c, nums, none, 1), mplite.Ssend(never, c, nums, none, 1)))
	for _, start := range []func() (mplite.Request, error){
		func() (mplite.Request, error) { return c.Isend(buf, none, 1) },
		func() (mplite.Request, error) { return c.Issend(buf, none, 1) },
		func() (mplite.Request, error) { return mplite.Isend(c, nums, none, 1) },
	} {
		if st, err := waited(start()); err != nil || st != (mplite.Status{}) {
			t.Errorf("a send to none ended with %+v, %v", st, err)
		}
	}
	for i, recv := range []func() (mplite.Status, error){
		func() (mplite.Status, error) { return c.Recv(never, buf, none, 1) },
		func() (mplite.Status, error) { return c.Recv(never, buf, none, mplite.AnyTag) },
		func() (mplite.Status, error) { return mplite.Recv(never, c, nums, none, 1) },
		func() (mplite.Status, error) { return waited(c.Irecv(buf, none, 1)) },
		func() (mplite.Status, error) { return waited(mplite.Irecv(c, nums, none, 1)) },
		func() (mplite.Status, error) { return c.Probe(never, none, 1) },
		func() (mplite.Status, error) {
			st, found, err := c.Iprobe(none, mplite.AnyTag)
			if !found {
				err = errors.New("Iprobe found nothing")
			}
			return st, err
		},
		func() (mplite.Status, error) { return c.Sendrecv(never, buf, none, 1, buf, none, 1) },
	} {
		if st, err := recv(); err != nil || st != fromNone {
			t.Errorf("receive %d from none ended with %+v, %v, want %+v", i, st, err, fromNone)
		}
	}
	if buf[0] != 1 || nums[0] != 4 {
		t.Error("a buffer was touched")
	}
	for _, err := range []error{c.Send(bg, buf, none, -1), second(c.Recv(bg, buf, none, -7)), second(c.Sendrecv(bg, buf, none, -1, buf, 0, 0))} {
		if !errors.Is(err, mplite.ErrTag) {
			t.Errorf("got %v, want ErrTag", err)
		}
	}
	if err := c.Bcast(bg, buf, none); !errors.Is(err, mplite.ErrRank) {
		t.Errorf("none as root: %v", err)
	}
	check(t, c.Finalize(bg))
	if err := c.Send(bg, buf, none, 1); !errors.Is(err, mplite.ErrFinalized) {
		t.Errorf("after Finalize: %v", err)
	}
}

// TestHaloWithoutPeriods: a program exchanges halos over the edges of a grid
// without asking where they are.
func TestHaloWithoutPeriods(t *testing.T) {
	check(t, runJob(4, sim.Options{}, small, func(c *mplite.Comm) error {
		g, err := c.CartCreate(bg, []int{4}, []bool{false})
		if err != nil {
			return err
		}
		for _, n := range []int{5, 3000} {
			for _, disp := range []int{1, -1, 3} {
				src, dst, err := g.Shift(0, disp)
				if err != nil {
					return err
				}
				halo := make([]int, n)
				halo[0] = -1
				mine := make([]int, n)
				mine[0] = g.Rank()
				st, err := mplite.Sendrecv(bg, g.Comm, mine, dst, disp+3, halo, src, disp+3)
				want, status := g.Rank()-disp, mplite.Status{Source: src, Tag: disp + 3, Count: 8 * n}
				if src == mplite.None {
					want, status = -1, fromNone
				}
				if err != nil || halo[0] != want || st != status {
					return fmt.Errorf("shift by %d got %d, %+v, %v; want %d, %+v", disp, halo[0], st, err, want, status)
				}
			}
		}
		return nil
	}))
}
