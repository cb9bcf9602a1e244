package mplite

import (
	"fmt"
	"slices"
)

// Group is an ordered set of ranks of a job (MPI_Group). A group does not communicate: it lists the
// ranks of a communicator, and CommCreate creates a communicator from it. Groups are immutable.
// They may be copied and shared between goroutines, and need not be freed. The zero Group is empty
// (MPI_GROUP_EMPTY).
type Group struct {
	members []int32 // ranks in the job's first communicator
	me      int32   // the caller's, if members is not empty
}

// Comparison is the result of comparing two groups or two communicators.
type Comparison int

// The results of Group.Compare and Compare.
const (
	Identical Comparison = iota // the same (MPI_IDENT)
	Congruent                   // different communicators of the same ranks in the same order (MPI_CONGRUENT)
	Similar                     // the same ranks in a different order (MPI_SIMILAR)
	Unequal                     // different ranks (MPI_UNEQUAL)
)

// String returns the name of c.
func (c Comparison) String() string {
	names := [...]string{"identical", "congruent", "similar", "unequal"}
	if c < 0 || int(c) >= len(names) {
		return fmt.Sprintf("Comparison(%d)", int(c))
	}
	return names[c]
}

// Group returns the group of c's ranks (MPI_Comm_group).
func (c *Comm) Group() Group { return Group{members: c.group, me: int32(c.w.rank)} }

// Size returns the number of ranks in g (MPI_Group_size).
func (g Group) Size() int { return len(g.members) }

// Rank returns the caller's rank in g, or Undefined if it is not in g (MPI_Group_rank).
func (g Group) Rank() int { return slices.Index(g.members, g.me) }

// String returns a human-readable description of g: its ranks in the job's first communicator.
func (g Group) String() string { return fmt.Sprintf("group %v", g.members) }

// check returns an error unless every rank is one of g's and none comes twice.
func (g Group) check(op string, ranks []int) error {
	seen := make([]bool, len(g.members))
	for _, r := range ranks {
		if r < 0 || r >= len(seen) {
			return opError(op, ErrRank, "rank %d is not in a group of %d ranks", r, len(seen))
		}
		if seen[r] {
			return opError(op, ErrRank, "rank %d is given twice", r)
		}
		seen[r] = true
	}
	return nil
}

// of returns the group of some members of g, or of no group if there are none.
func (g Group) of(members []int32) Group { return Group{members: members, me: g.me} }

// Include returns the group of the given ranks of g, in the order given
// (MPI_Group_incl).
func (g Group) Include(ranks ...int) (Group, error) {
	if err := g.check("include", ranks); err != nil {
		return Group{}, err
	}
	members := make([]int32, len(ranks))
	for i, r := range ranks {
		members[i] = g.members[r]
	}
	return g.of(members), nil
}

// Exclude returns the group of all ranks of g but the given ones, in the order
// of g (MPI_Group_excl).
func (g Group) Exclude(ranks ...int) (Group, error) {
	if err := g.check("exclude", ranks); err != nil {
		return Group{}, err
	}
	var members []int32
	for r, m := range g.members {
		if !slices.Contains(ranks, r) {
			members = append(members, m)
		}
	}
	return g.of(members), nil
}

// Range is the ranks First, First+Stride, First+2*Stride and so on, up to Last. Stride may be
// negative; 0 means 1.
type Range struct{ First, Last, Stride int }

// expand returns the ranks of all ranges.
func (g Group) expand(op string, ranges []Range) ([]int, error) {
	var ranks []int
	for _, r := range ranges {
		stride := r.Stride
		setDefault(&stride, 1)
		steps := (r.Last - r.First) / stride
		if r.First < 0 || r.First >= len(g.members) || steps > len(g.members) {
			return nil, opError(op, ErrRank, "range %+v is not in a group of %d ranks", r, len(g.members))
		}
		if stride > 0 && r.Last < r.First || stride < 0 && r.Last > r.First { // no rank
			continue
		}
		for i := range steps + 1 {
			ranks = append(ranks, r.First+i*stride)
		}
	}
	return ranks, nil
}

// IncludeRanges is like Include, with the ranks of all ranges (MPI_Group_range_incl).
func (g Group) IncludeRanges(ranges ...Range) (Group, error) {
	ranks, err := g.expand("include", ranges)
	if err != nil {
		return Group{}, err
	}
	return g.Include(ranks...)
}

// ExcludeRanges is like Exclude, with the ranks of all ranges (MPI_Group_range_excl).
func (g Group) ExcludeRanges(ranges ...Range) (Group, error) {
	ranks, err := g.expand("exclude", ranges)
	if err != nil {
		return Group{}, err
	}
	return g.Exclude(ranks...)
}

// Union returns the ranks of g, followed by the ranks of h that are not in g (MPI_Group_union).
func (g Group) Union(h Group) Group {
	if len(g.members) == 0 {
		return h
	}
	return g.of(append(slices.Clone(g.members), h.Difference(g).members...))
}

// Intersection returns the ranks of g that are in h, in the order of g
// (MPI_Group_intersection).
func (g Group) Intersection(h Group) Group {
	return g.pick(func(m int32) bool { return slices.Contains(h.members, m) })
}

// Difference returns the ranks of g that are not in h, in the order of g
// (MPI_Group_difference).
func (g Group) Difference(h Group) Group {
	return g.pick(func(m int32) bool { return !slices.Contains(h.members, m) })
}

func (g Group) pick(wanted func(member int32) bool) Group {
	var members []int32
	for _, m := range g.members {
		if wanted(m) {
			members = append(members, m)
		}
	}
	return g.of(members)
}

// TranslateRanks returns the ranks in h of the given ranks of g (MPI_Group_translate_ranks). It
// returns Undefined for ranks that are not in h, and None for None.
func (g Group) TranslateRanks(ranks []int, h Group) ([]int, error) {
	out := make([]int, len(ranks))
	for i, r := range ranks {
		switch {
		case r == None:
			out[i] = None
		case r < 0 || r >= len(g.members):
			return nil, opError("translate ranks", ErrRank, "rank %d is not in a group of %d ranks", r, len(g.members))
		default:
			out[i] = slices.Index(h.members, g.members[r])
		}
	}
	return out, nil
}

// Compare returns Identical if g and h have the same ranks in the same order, Similar if the order
// differs, and otherwise Unequal (MPI_Group_compare).
func (g Group) Compare(h Group) Comparison {
	switch {
	case slices.Equal(g.members, h.members):
		return Identical
	case len(g.members) == len(h.members) && g.Difference(h).Size() == 0:
		return Similar
	}
	return Unequal
}

// Compare returns Identical if a and b are the same communicator. It returns Congruent if they have
// the same ranks in the same order, Similar if the order differs, and otherwise Unequal
// (MPI_Comm_compare).
func Compare(a, b *Comm) Comparison {
	how := a.Group().Compare(b.Group())
	if how == Identical && a.context != b.context {
		return Congruent
	}
	return how
}
