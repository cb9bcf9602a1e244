package mplite_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// ranksOf returns which ranks of c are in g, in its order.
func ranksOf(c *mplite.Comm, g mplite.Group) []int {
	out, err := g.TranslateRanks(indices(g.Size()), c.Group())
	if err != nil {
		panic(err)
	}
	return out
}

// TestGroups compares the operations on random groups with those on slices.
func TestGroups(t *testing.T) {
	check(t, runJob(7, sim.Options{}, small, func(c *mplite.Comm) error {
		rng := rand.New(rand.NewPCG(1, uint64(c.Rank())))
		for range 200 {
			a, b := rng.Perm(7)[:rng.IntN(8)], rng.Perm(7)[:rng.IntN(8)]
			if err := groupsOf(c, a, b); err != nil {
				return fmt.Errorf("groups %v and %v: %w", a, b, err)
			}
		}
		return nil
	}))
}

func groupsOf(c *mplite.Comm, a, b []int) error {
	g, err := c.Group().Include(a...)
	if err != nil {
		return err
	}
	h, err := c.Group().Include(b...)
	if err != nil {
		return err
	}
	both, onlyA, onlyB := []int{}, []int{}, []int{}
	positions := make([]int, len(a))
	for i, r := range a {
		if positions[i] = slices.Index(b, r); positions[i] >= 0 {
			both = append(both, r)
		} else {
			onlyA = append(onlyA, r)
		}
	}
	for _, r := range b {
		if !slices.Contains(a, r) {
			onlyB = append(onlyB, r)
		}
	}
	left := []int{}
	for r := range c.Size() {
		if !slices.Contains(a, r) {
			left = append(left, r)
		}
	}
	excluded, err := c.Group().Exclude(a...)
	if err != nil {
		return err
	}
	translated, err := g.TranslateRanks(indices(len(a)), h)
	if err != nil || !slices.Equal(translated, positions) {
		return fmt.Errorf("translated to %v, %w, want %v", translated, err, positions)
	}
	for _, tc := range []struct {
		name string
		got  mplite.Group
		want []int
	}{
		{"include", g, a}, {"exclude", excluded, left},
		{"union", g.Union(h), slices.Concat(a, onlyB)}, {"intersection", g.Intersection(h), both}, {"difference", g.Difference(h), onlyA},
	} {
		if got := ranksOf(c, tc.got); !slices.Equal(got, tc.want) {
			return fmt.Errorf("%s is %v, want %v", tc.name, got, tc.want)
		}
		if got, want := tc.got.Rank(), slices.Index(tc.want, c.Rank()); got != want {
			return fmt.Errorf("own rank in the %s is %d, want %d", tc.name, got, want)
		}
	}
	how := mplite.Unequal
	if slices.Equal(a, b) {
		how = mplite.Identical
	} else if len(onlyA)+len(onlyB) == 0 {
		how = mplite.Similar
	}
	if got := g.Compare(h); got != how {
		return fmt.Errorf("they are %v, want %v", got, how)
	}
	return nil
}

func indices(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

func TestGroupRanges(t *testing.T) {
	check(t, runJob(9, sim.Options{}, small, func(c *mplite.Comm) error {
		all := c.Group()
		for _, tc := range []struct {
			ranges []mplite.Range
			want   []int
			err    error
		}{
			{nil, []int{}, nil},
			{[]mplite.Range{{First: 2, Last: 2}}, []int{2}, nil},
			{[]mplite.Range{{First: 1, Last: 8, Stride: 3}}, []int{1, 4, 7}, nil},
			{[]mplite.Range{{First: 8, Last: 1, Stride: -3}, {First: 0, Last: 1}}, []int{8, 5, 2, 0, 1}, nil},
			{[]mplite.Range{{First: 5, Last: 3}}, []int{}, nil},
			{[]mplite.Range{{First: 0, Last: 9}}, nil, mplite.ErrRank},
			{[]mplite.Range{{First: 0, Last: 1 << 62}}, nil, mplite.ErrRank},
			{[]mplite.Range{{First: -1, Last: 2}}, nil, mplite.ErrRank},
			{[]mplite.Range{{First: 0, Last: 4}, {First: 4, Last: 5}}, nil, mplite.ErrRank}, // rank 4 twice
		} {
			g, err := all.IncludeRanges(tc.ranges...)
			if !errors.Is(err, tc.err) || err == nil && !slices.Equal(ranksOf(c, g), tc.want) {
				return fmt.Errorf("%v are %v, %w, want %v", tc.ranges, g, err, tc.want)
			}
			rest, err := all.ExcludeRanges(tc.ranges...)
			if !errors.Is(err, tc.err) || err == nil && !slices.Equal(ranksOf(c, rest), ranksOf(c, all.Difference(g))) {
				return fmt.Errorf("without %v there are %v, %w", tc.ranges, rest, err)
			}
		}
		_, twice := all.Include(1, 1)
		_, beyond := all.Exclude(9)
		_, foreign := all.TranslateRanks([]int{9}, all)
		for _, err := range []error{twice, beyond, foreign} {
			if !errors.Is(err, mplite.ErrRank) {
				return fmt.Errorf("error %w, want ErrRank", err)
			}
		}
		none, err := all.TranslateRanks([]int{mplite.None}, all)
		if err != nil || none[0] != mplite.None || (mplite.Group{}).Rank() != mplite.Undefined || (mplite.Group{}).Union(all).Compare(all) != mplite.Identical {
			return fmt.Errorf("None is %v, %w", none, err)
		}
		return nil
	}))
}

// TestCommCreate makes communicators of random groups, several of other ranks by
// one call.
func TestCommCreate(t *testing.T) {
	seeds(t, 10, func(seed uint64) error {
		return runJob(7, sim.Options{Seed: seed, Loss: 0.02}, small, func(c *mplite.Comm) error {
			rng := rand.New(rand.NewPCG(seed, 3)) // the same on every rank
			for range 5 {
				order := rng.Perm(c.Size())
				cut := rng.IntN(c.Size() + 1)
				mine, rest := order[:cut], order[cut:]
				if rng.IntN(2) == 0 {
					rest = nil
				}
				if !slices.Contains(mine, c.Rank()) {
					mine = rest
				}
				if err := created(c, mine); err != nil {
					return fmt.Errorf("group %v at rank %d: %w", mine, c.Rank(), err)
				}
			}
			return nil
		})
	})
}

func created(c *mplite.Comm, ranks []int) error {
	g, err := c.Group().Include(ranks...)
	if err != nil {
		return err
	}
	sub, err := c.CommCreate(bg, g)
	if err != nil || sub == nil || len(ranks) == 0 {
		if sub != nil || slices.Contains(ranks, c.Rank()) {
			return fmt.Errorf("communicator %v, error %w", sub, err)
		}
		return err
	}
	if sub.Size() != len(ranks) || ranks[sub.Rank()] != c.Rank() {
		return fmt.Errorf("rank %d of %d", sub.Rank(), sub.Size())
	}
	got, want := make([]int, len(ranks)), ranks
	if err := mplite.Allgather(bg, sub, []int{c.Rank()}, got); err != nil {
		return err
	}
	if !slices.Equal(got, want) {
		return fmt.Errorf("gathered %v", got)
	}
	return sub.Free()
}

// TestCommCreateDiffers: groups that do not fit each other are an error on every
// rank, and the communicator goes on.
func TestCommCreateDiffers(t *testing.T) {
	check(t, runJob(4, sim.Options{}, small, func(c *mplite.Comm) error {
		pair, err := c.Split(bg, c.Rank()/2, 0)
		if err != nil {
			return err
		}
		for _, beyond := range []bool{false, true} {
			g, want := pair.Group(), error(nil)
			switch {
			case c.Rank() >= 2: // whom it does not concern
			case beyond:
				want = mplite.ErrArgument
				if c.Rank() == 0 {
					g = c.Group()
				}
			default:
				want = mplite.ErrArgument
				if c.Rank() == 1 {
					g = c.Self().Group()
				}
			}
			if _, err := pair.CommCreate(bg, g); !errors.Is(err, want) {
				return fmt.Errorf("with ranks beyond it %v: %w", beyond, err)
			}
		}
		return pair.Barrier(bg)
	}))
}

func TestSelfCommunicator(t *testing.T) {
	check(t, runJob(3, sim.Options{}, small, func(c *mplite.Comm) error {
		self := c.Self()
		if self != c.Self() || self.Size() != 1 || self.Rank() != 0 || self.JobRank(0) != c.Rank() {
			return fmt.Errorf("%v", self)
		}
		r, err := self.Irecv(make([]byte, 3), 0, mplite.AnyTag)
		if err != nil {
			return err
		}
		if err := self.Send(bg, []byte("me"), 0, 5); err != nil {
			return err
		}
		if st, err := r.Wait(bg); err != nil || st.Count != 2 || st.Tag != 5 || st.Source != 0 {
			return fmt.Errorf("%+v, %w", st, err)
		}
		sum := []int{c.Rank()}
		if err := mplite.Allreduce(bg, self, nil, sum, mplite.Sum[int]()); err != nil || sum[0] != c.Rank() {
			return fmt.Errorf("sum %d, %w", sum[0], err)
		}
		twin, err := self.Dup(bg)
		if err != nil || mplite.Compare(self, twin) != mplite.Congruent || mplite.Compare(self, self) != mplite.Identical {
			return fmt.Errorf("%v, %w", twin, err)
		}
		if mplite.Compare(c, self) != mplite.Unequal {
			return errors.New("a rank is equal to all")
		}
		back, err := c.Split(bg, 0, -c.Rank())
		if err != nil || mplite.Compare(c, back) != mplite.Similar {
			return fmt.Errorf("%v, %w", back, err)
		}
		return nil
	}))
}
