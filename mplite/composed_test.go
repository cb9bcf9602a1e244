package mplite_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// composedWays are the calls that make communicators, each by several collectives, and
// the collectives that these are.
func composedWays() []way {
	return []way{
		{name: "split", call: func(c *mplite.Comm) error { return second(c.Split(bg, 0, 0)) }},
		{name: "dup", call: func(c *mplite.Comm) error { return second(c.Dup(bg)) }},
		{name: "comm_create", call: func(c *mplite.Comm) error { return second(c.CommCreate(bg, c.Group())) }},
		{name: "cart_create", call: func(c *mplite.Comm) error { return second(c.CartCreate(bg, []int{c.Size()}, []bool{true})) }},
		{name: "allgather", call: func(c *mplite.Comm) error {
			return mplite.Allgather(bg, c, make([]int64, 2), make([]int64, 2*c.Size()))
		}},
		{name: "allreduce", call: func(c *mplite.Comm) error {
			return mplite.Allreduce(bg, c, nil, make([]uint32, 1), mplite.Max[uint32]())
		}},
	}
}

// TestMismatchOfComposedCalls: an error names the calls that the users have made, and
// not what these are made of, also where that would fit.
func TestMismatchOfComposedCalls(t *testing.T) {
	for _, size := range []int{2, 3} {
		check(t, runJob(size, sim.Options{}, small, func(c *mplite.Comm) error {
			for i, usual := range composedWays() {
				for k, other := range composedWays() {
					if i == k {
						continue
					}
					if err := (odd{(i + k) % size, usual, other}).meets(c, false, "called "+usual.name, "called "+other.name); err != nil {
						return err
					}
				}
			}
			return nil
		}))
	}
}

// TestMismatchOfCartSub: the same of a call on a grid.
func TestMismatchOfCartSub(t *testing.T) {
	check(t, runJob(4, sim.Options{}, small, func(c *mplite.Comm) error {
		g, err := c.CartCreate(bg, []int{2, 2}, []bool{false, false})
		if err != nil {
			return err
		}
		if c.Rank() == 2 {
			err = second(g.Split(bg, 0, 0))
		} else {
			err = second(g.Sub(bg, []bool{true, false}))
		}
		var m *mplite.MismatchError
		if !errors.As(err, &m) {
			return fmt.Errorf("rank %d: %w", c.Rank(), err)
		}
		names := slices.Sorted(slices.Values(m.Calls[:]))
		if want := []string{"cart_sub", "split"}; !slices.Equal(names, want) {
			return fmt.Errorf("it names %q, want %q", names, want)
		}
		return nil
	}))
}
