package mplite_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// A way is one way to call a collective, in both forms, and how errors name it.
type way struct {
	name  string
	call  func(c *mplite.Comm) error
	start func(c *mplite.Comm) (mplite.Request, error)
}

// ways are the collectives on vectors of n elements with a root.
func ways(n, root int) []way {
	sum := mplite.Sum[float64]()
	v := func() []float64 { return make([]float64, n) }
	all := func(c *mplite.Comm) []float64 { return make([]float64, n*c.Size()) }
	counts := func(c *mplite.Comm) []int { return slices.Repeat([]int{n}, c.Size()) }
	return []way{
		{"barrier", func(c *mplite.Comm) error { return c.Barrier(bg) },
			func(c *mplite.Comm) (mplite.Request, error) { return c.Ibarrier() }},
		{"bcast", func(c *mplite.Comm) error { return mplite.Bcast(bg, c, v(), root) },
			func(c *mplite.Comm) (mplite.Request, error) { return mplite.Ibcast(c, v(), root) }},
		{"reduce", func(c *mplite.Comm) error { return mplite.Reduce(bg, c, v(), v(), sum, root) },
			func(c *mplite.Comm) (mplite.Request, error) { return mplite.Ireduce(c, v(), v(), sum, root) }},
		{"allreduce", func(c *mplite.Comm) error { return mplite.Allreduce(bg, c, v(), v(), sum) },
			func(c *mplite.Comm) (mplite.Request, error) { return mplite.Iallreduce(c, v(), v(), sum) }},
		{"gather", func(c *mplite.Comm) error { return mplite.Gather(bg, c, v(), all(c), root) },
			func(c *mplite.Comm) (mplite.Request, error) { return mplite.Igather(c, v(), all(c), root) }},
		{"gatherv", func(c *mplite.Comm) error { return mplite.Gatherv(bg, c, v(), all(c), counts(c), root) },
			func(c *mplite.Comm) (mplite.Request, error) {
				return mplite.Igatherv(c, v(), all(c), counts(c), root)
			}},
		{"scatter", func(c *mplite.Comm) error { return mplite.Scatter(bg, c, all(c), v(), root) },
			func(c *mplite.Comm) (mplite.Request, error) { return mplite.Iscatter(c, all(c), v(), root) }},
		{"scatterv", func(c *mplite.Comm) error { return mplite.Scatterv(bg, c, all(c), counts(c), v(), root) },
			func(c *mplite.Comm) (mplite.Request, error) {
				return mplite.Iscatterv(c, all(c), counts(c), v(), root)
			}},
		{"allgather", func(c *mplite.Comm) error { return mplite.Allgather(bg, c, v(), all(c)) },
			func(c *mplite.Comm) (mplite.Request, error) { return mplite.Iallgather(c, v(), all(c)) }},
		{"allgatherv", func(c *mplite.Comm) error { return mplite.Allgatherv(bg, c, v(), all(c), counts(c)) },
			func(c *mplite.Comm) (mplite.Request, error) {
				return mplite.Iallgatherv(c, v(), all(c), counts(c))
			}},
		{"alltoall", func(c *mplite.Comm) error { return mplite.Alltoall(bg, c, all(c), all(c)) },
			func(c *mplite.Comm) (mplite.Request, error) { return mplite.Ialltoall(c, all(c), all(c)) }},
		{"alltoallv", func(c *mplite.Comm) error { return mplite.Alltoallv(bg, c, all(c), counts(c), all(c), counts(c)) },
			func(c *mplite.Comm) (mplite.Request, error) {
				return mplite.Ialltoallv(c, all(c), counts(c), all(c), counts(c))
			}},
		{"reduce_scatter", func(c *mplite.Comm) error { return mplite.ReduceScatter(bg, c, all(c), v(), counts(c), sum) },
			func(c *mplite.Comm) (mplite.Request, error) {
				return mplite.IreduceScatter(c, all(c), v(), counts(c), sum)
			}},
		{"scan", func(c *mplite.Comm) error { return mplite.Scan(bg, c, v(), v(), sum) },
			func(c *mplite.Comm) (mplite.Request, error) { return mplite.Iscan(c, v(), v(), sum) }},
		{"exscan", func(c *mplite.Comm) error { return mplite.Exscan(bg, c, v(), v(), sum) },
			func(c *mplite.Comm) (mplite.Request, error) { return mplite.Iexscan(c, v(), v(), sum) }},
	}
}

// run makes the call, in one form or the other.
func (w way) run(c *mplite.Comm, nonblocking bool) error {
	if !nonblocking {
		return w.call(c)
	}
	r, err := w.start(c)
	if err == nil {
		_, err = r.Wait(bg)
	}
	return err
}

// odd is a case in which one rank, the odd one, makes another call than the others.
type odd struct {
	rank        int
	usual, same way // what the others call, and what the odd one does
}

// meets runs the case on a communicator of its own: every rank gets the error by
// this call or by the next, and by every later one; messages still get through.
func (o odd) meets(c *mplite.Comm, nonblocking bool, names ...string) error {
	d, err := c.Dup(bg)
	if err != nil {
		return err
	}
	mine := o.usual
	if c.Rank() == o.rank {
		mine = o.same
	}
	if err = mine.run(d, nonblocking); err == nil {
		err = d.Barrier(bg)
	}
	var m *mplite.MismatchError
	if !errors.As(err, &m) || !errors.Is(err, mplite.ErrMismatch) {
		return fmt.Errorf("rank %d called %s, the odd rank %d %s: error %w", c.Rank(), mine.name, o.rank, o.same.name, err)
	}
	if !slices.Contains(m.Ranks[:], o.rank) || m.Ranks[0] == m.Ranks[1] {
		return fmt.Errorf("the odd rank %d is not named: %w", o.rank, err)
	}
	for _, name := range names {
		if !contains(err, name) {
			return fmt.Errorf("%q is not named: %w", name, err)
		}
	}
	if err := d.Barrier(bg); !errors.Is(err, mplite.ErrMismatch) {
		return fmt.Errorf("the next call: %w", err)
	}
	next, prev := (c.Rank()+1)%c.Size(), (c.Rank()+c.Size()-1)%c.Size()
	if _, err := d.Sendrecv(bg, []byte{1}, next, 0, make([]byte, 1), prev, 0); err != nil {
		return err
	}
	if err := d.Free(); err != nil {
		return err
	}
	return c.Barrier(bg)
}

// TestMismatch is the matrix: each function against each other one, called by
// each rank, and each with another root, length or operation.
func TestMismatch(t *testing.T) {
	sizes := []int{2, 3, 4}
	if !need.Full() {
		sizes = []int{3}
	}
	for _, size := range sizes {
		for _, n := range []int{3, 700} {
			for _, nonblocking := range []bool{false, true} {
				check(t, runJob(size, sim.Options{}, small, func(c *mplite.Comm) error {
					for i, usual := range ways(n, 0) {
						for k, other := range ways(n, 0) {
							rank := (i + k) % size
							if i == k {
								continue
							}
							if err := (odd{rank, usual, other}).meets(c, nonblocking, usual.name, other.name); err != nil {
								return err
							}
						}
					}
					return nil
				}))
			}
		}
	}
}

// TestMismatchOfArguments: the same function with another root, or another
// length, at one rank.
func TestMismatchOfArguments(t *testing.T) {
	for _, size := range []int{2, 3, 5} {
		check(t, runJob(size, sim.Options{}, small, func(c *mplite.Comm) error {
			for rank := range size {
				for i, usual := range ways(3, 0) {
					var others []way
					switch usual.name {
					case "bcast", "reduce", "gather", "gatherv", "scatter", "scatterv":
						others = append(others, ways(3, 1)[i])
					}
					if usual.name != "barrier" {
						others = append(others, ways(4, 0)[i])
					}
					for _, other := range others {
						if err := (odd{rank, usual, other}).meets(c, rank%2 == 1, usual.name); err != nil {
							return err
						}
					}
				}
			}
			return nil
		}))
	}
}

// TestMismatchNames: both calls are named in full.
func TestMismatchNames(t *testing.T) {
	reduce := func(v []float64, op mplite.Op[float64]) way {
		return way{name: "allreduce", call: func(c *mplite.Comm) error { return mplite.Allreduce(bg, c, nil, v, op) }}
	}
	ints := way{name: "allreduce", call: func(c *mplite.Comm) error {
		return mplite.Allreduce(bg, c, nil, make([]int64, 3), mplite.Sum[int64]())
	}}
	v := make([]float64, 3)
	check(t, runJob(3, sim.Options{}, small, func(c *mplite.Comm) error {
		for _, tc := range []struct {
			odd
			names []string
		}{
			{odd{1, reduce(v, mplite.Sum[float64]()), reduce(v, mplite.Max[float64]())},
				[]string{"rank 1 called allreduce (max) of 3 float64", "called allreduce (sum) of 3 float64"}},
			{odd{2, reduce(v, mplite.Sum[float64]()), ints}, []string{"rank 2 called allreduce (sum) of 3 int64", "allreduce (sum) of 3 float64"}},
			{odd{0, ways(3, 1)[1], ways(3, 2)[1]}, []string{"rank 0 called bcast of 3 float64 from root 2", "bcast of 3 float64 from root 1"}},
		} {
			if err := tc.meets(c, false, tc.names...); err != nil {
				return err
			}
		}
		return nil
	}))
}

// TestMismatchWithoutMessages: two ranks that each wait for the other, and so send
// nothing, find it out; and a rank that comes late, when the other has asked.
func TestMismatchWithoutMessages(t *testing.T) {
	j := newJob(2, sim.Options{}, small)
	j.start(func(c *mplite.Comm) error {
		for _, late := range []time.Duration{0, time.Second} {
			d, err := c.Dup(bg)
			if err != nil {
				return err
			}
			if c.Rank() == 1 {
				if err := j.computesFor(c, late); err != nil {
					return err
				}
			}
			if err := mplite.Bcast(bg, d, make([]int, 4), 1-c.Rank()); !errors.Is(err, mplite.ErrMismatch) {
				return fmt.Errorf("two roots: %w", err)
			}
		}
		return nil
	})
	check(t, j.run())
}

// TestMismatchWithoutWaits: two ranks that each send to the other and leave get
// the error by their next call.
func TestMismatchWithoutWaits(t *testing.T) {
	j := newJob(2, sim.Options{}, small)
	j.start(func(c *mplite.Comm) error {
		d, err := c.Dup(bg)
		if err != nil {
			return err
		}
		first := mplite.Bcast(bg, d, make([]int, 4), c.Rank())
		if err := j.computesFor(c, time.Second); err != nil {
			return err
		}
		if second := d.Barrier(bg); !errors.Is(second, mplite.ErrMismatch) || !contains(second, "bcast of 4 int64 from root 1") {
			return fmt.Errorf("bcast %w, barrier %w", first, second)
		}
		return nil
	})
	check(t, j.run())
}

// TestWrongArguments: arguments that are invalid at one rank end the others. If
// all have noticed, the next call is none the worse.
func TestWrongArguments(t *testing.T) {
	short := make([]float64, 1)
	sum := mplite.Sum[float64]()
	for _, size := range []int{2, 3, 5} {
		for root := range size {
			v := make([]float64, 3)
			all := make([]float64, 3*size)
			counts := slices.Repeat([]int{3}, size)
			j := newJob(size, sim.Options{}, small)
			j.start(func(c *mplite.Comm) error {
				for i, tc := range []struct{ good, bad func(c *mplite.Comm) error }{
					{func(c *mplite.Comm) error { return mplite.Gather(bg, c, v, all, root) },
						func(c *mplite.Comm) error { return mplite.Gather(bg, c, v, short, root) }},
					{func(c *mplite.Comm) error { return mplite.Gatherv(bg, c, v, all, counts, root) },
						func(c *mplite.Comm) error { return mplite.Gatherv(bg, c, v, short, counts, root) }},
					{func(c *mplite.Comm) error { return mplite.Scatter(bg, c, all, v, root) },
						func(c *mplite.Comm) error { return mplite.Scatter(bg, c, short, v, root) }},
					{func(c *mplite.Comm) error { return mplite.Scatterv(bg, c, all, counts, v, root) },
						func(c *mplite.Comm) error { return mplite.Scatterv(bg, c, all, nil, v, root) }},
					{func(c *mplite.Comm) error { return mplite.Reduce(bg, c, v, slices.Clone(v), sum, root) },
						func(c *mplite.Comm) error { return mplite.Reduce(bg, c, v, short, sum, root) }},
					{func(c *mplite.Comm) error { return mplite.Bcast(bg, c, v, root) },
						func(c *mplite.Comm) error { return mplite.Bcast(bg, c, v, -1) }},
				} {
					if err := wrongAt(j, c, root, tc.good, tc.bad); err != nil {
						return fmt.Errorf("case %d, wrong at rank %d of %d: %w", i, root, size, err)
					}
				}
				return nil
			})
			check(t, j.run())
		}
	}
}

func wrongAt(j *testJob, c *mplite.Comm, root int, good, bad func(c *mplite.Comm) error) error {
	d, err := c.Dup(bg)
	if err != nil {
		return err
	}
	if c.Rank() == root {
		if err := bad(d); !errors.Is(err, mplite.ErrArgument) && !errors.Is(err, mplite.ErrRank) {
			return err
		}
	} else if err = good(d); err == nil { // it had only to send
		if err := j.computesFor(c, time.Second); err != nil {
			return err
		}
	}
	late := err == nil
	next := d.Barrier(bg)
	if late || next != nil {
		err = next
	}
	var m *mplite.MismatchError
	if c.Rank() != root && (!errors.As(err, &m) || m.Ranks != [2]int{root, mplite.None} || m.Reason == "") {
		return fmt.Errorf("error %w", err)
	}
	return c.Barrier(bg)
}

// TestWrongArgumentsEverywhere: a call that no rank can make leaves no trace.
func TestWrongArgumentsEverywhere(t *testing.T) {
	seeds(t, 4, func(seed uint64) error {
		return runJob(4, sim.Options{Seed: seed, Loss: 0.05}, small, func(c *mplite.Comm) error {
			for range 200 {
				if err := c.Bcast(bg, nil, 9); !errors.Is(err, mplite.ErrRank) {
					return err
				}
				sum := []int{1}
				if err := mplite.Allreduce(bg, c, nil, sum, mplite.Sum[int]()); err != nil || sum[0] != 4 {
					return fmt.Errorf("sum %d: %w", sum[0], err)
				}
			}
			return nil
		})
	})
}

// TestMismatchUnderLoss draws what the odd rank calls, when, and beside which
// nonblocking collectives, over a bad network.
func TestMismatchUnderLoss(t *testing.T) {
	seeds(t, 20, func(seed uint64) error {
		opts := sim.Options{Seed: seed, Loss: 0.05, Dup: 0.02, Reorder: 0.05}
		size := 2 + int(seed%5)
		return runJob(size, opts, small, func(c *mplite.Comm) error {
			rng := rand.New(rand.NewPCG(seed, 11))
			for range 4 {
				n := []int{0, 2, 900}[rng.IntN(3)]
				i, k := rng.IntN(15), rng.IntN(14)
				if k >= i {
					k++
				}
				o := odd{rng.IntN(size), ways(n, rng.IntN(size))[i], ways(n, rng.IntN(size))[k]}
				twin, err := c.Dup(bg)
				if err != nil {
					return err
				}
				sum := slices.Repeat([]int{c.Rank()}, 500)
				r, err := mplite.Iallreduce(twin, nil, sum, mplite.Sum[int]())
				if err != nil {
					return err
				}
				if err := o.meets(c, rng.IntN(2) == 0); err != nil {
					return err
				}
				if _, err := r.Wait(bg); err != nil || sum[0] != size*(size-1)/2 {
					return fmt.Errorf("beside it: %d, %w", sum[0], err)
				}
			}
			return nil
		})
	})
}

// TestMismatchEndsInOrder: when the job's first communicator is the one, every rank
// hears why, over a bad network as well, although the others finalize at once.
func TestMismatchEndsInOrder(t *testing.T) {
	seeds(t, 20, func(seed uint64) error {
		opts := sim.Options{Seed: seed, Loss: 0.2}
		j := newJob(4, opts, small)
		j.start(func(c *mplite.Comm) error {
			odd := ways(3, 0)[seed%15]
			if c.Rank() == int(seed%4) {
				odd = ways(3, 1)[(seed+1+seed/15)%15]
			}
			err := odd.call(c)
			began := j.Now()
			left := c.Finalize(bg)
			if took := time.Duration(j.Now() - began); took > 5*time.Second {
				return fmt.Errorf("Finalize took %v", took)
			}
			if !errors.Is(left, mplite.ErrMismatch) || err != nil && !errors.Is(err, mplite.ErrMismatch) {
				return fmt.Errorf("%s: %w; Finalize: %w", odd.name, err, left)
			}
			return errKilled
		})
		return j.runKilled()
	})
}

// composedWays are the calls that make communicators, each by several collectives, and
// the collectives that these are.
func composedWays() []way {
	return []way{
		{name: "split", call: func(c *mplite.Comm) error { return second(c.Split(bg, 0, 0)) }},
		{name: "split_shared", call: func(c *mplite.Comm) error { return second(c.SplitShared(bg, 0)) }},
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
