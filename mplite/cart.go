package mplite

import (
	"context"
	"math"
	"slices"
)

// Cart is a communicator with its ranks arranged as a grid (MPI_Cart). The last coordinate varies
// fastest. Its fields and methods may be used by any goroutine; see Comm for the communicator.
type Cart struct {
	*Comm
	dims     []int
	periodic []bool
}

// DimsCreate completes dims for n ranks (MPI_Dims_create). It replaces every 0 so that the product
// is n and the dimensions are as equal as possible, larger ones first. It keeps non-zero entries.
func DimsCreate(n int, dims []int) error {
	fixed, open := 1, 0
	for _, d := range dims {
		switch {
		case d < 0:
			return opError("create dimensions", ErrArgument, "dimension %d is negative", d)
		case d == 0:
			open++
		case d > n/fixed:
			return opError("create dimensions", ErrArgument, "%d ranks cannot be laid out as %v", n, dims)
		default:
			fixed *= d
		}
	}
	if n < 1 || n%fixed != 0 || open == 0 && n != fixed {
		return opError("create dimensions", ErrArgument, "%d ranks cannot be laid out as %v", n, dims)
	}
	if open == 0 {
		return nil
	}
	factors := balanced(n/fixed, open)
	for i, d := range dims {
		if d == 0 {
			dims[i], factors = factors[0], factors[1:]
		}
	}
	return nil
}

// balanced returns n as a product of k factors in descending order. It prefers the smallest
// difference between the largest and the smallest factor, then the smallest first factor, then the
// smallest second one, and so on.
func balanced(n, k int) []int {
	b := balance{spread: n}
	for d := 1; d <= n/d; d++ {
		if n%d == 0 {
			b.divisors = append(b.divisors, d, n/d)
		}
	}
	slices.Sort(b.divisors)
	b.divisors = slices.Compact(b.divisors)
	b.choose(n, k, n)
	return b.best
}

// balance is the state of the search that balanced does.
type balance struct {
	divisors []int // divisors of the whole product, in ascending order
	chosen   []int // the factors so far
	best     []int
	spread   int // largest minus smallest factor of best; at first larger than any possible difference
}

// choose adds k factors of at most most, whose product is n. It tries all combinations that may be
// better than the best so far.
func (b *balance) choose(n, k, most int) {
	for _, f := range b.divisors {
		if f > most {
			return
		}
		first := f
		if len(b.chosen) > 0 {
			first = b.chosen[0]
		}
		switch {
		case n%f != 0 || pow(f, k) < n: // the largest of k factors is at least the k-th root of n
		case k == 1:
			if first-f < b.spread {
				b.best, b.spread = append(slices.Clone(b.chosen), f), first-f
			}
		case first-floorRoot(n/f, k-1) >= b.spread: // the smallest of the other factors is at most this root
			return // a larger f makes the difference larger
		default:
			b.chosen = append(b.chosen, f)
			b.choose(n/f, k-1, f)
			b.chosen = b.chosen[:len(b.chosen)-1]
		}
	}
}

// floorRoot returns the largest r such that r to the power of k is at most n.
func floorRoot(n, k int) int {
	r := int(math.Pow(float64(n), 1/float64(k)))
	for pow(r+1, k) <= n {
		r++
	}
	for pow(r, k) > n {
		r--
	}
	return r
}

// pow returns b to the power of k, or the largest int if that is larger.
func pow(b, k int) int {
	p := 1
	for range k {
		if p > math.MaxInt/b {
			return math.MaxInt
		}
		p *= b
	}
	return p
}

// CartCreate arranges the ranks of c as a grid (MPI_Cart_create). It is collective. Ranks beyond
// the grid get nil. The others keep their order. MPI allows reordering, but on one segment all
// ranks are equally far apart, so it would gain nothing.
func (c *Comm) CartCreate(ctx context.Context, dims []int, periodic []bool) (*Cart, error) {
	n := 1
	for _, d := range dims {
		if d < 1 || n > len(c.group) {
			n = 0
			break
		}
		n *= d
	}
	if n < 1 || n > len(c.group) || len(dims) != len(periodic) {
		return nil, opError("create grid", ErrArgument, "dimensions %v with %d periods do not fit a communicator of %d ranks", dims, len(periodic), len(c.group))
	}
	color := 0
	if c.rank >= n {
		color = Undefined
	}
	sub, err := c.within(callCartCreate).Split(ctx, color, c.rank)
	if err != nil || sub == nil {
		return nil, err
	}
	return &Cart{Comm: sub, dims: slices.Clone(dims), periodic: slices.Clone(periodic)}, nil
}

// Dup creates a grid of the same ranks and shape, whose messages are separate from those of g
// (MPI_Comm_dup). It is collective.
func (g *Cart) Dup(ctx context.Context) (*Cart, error) {
	sub, err := g.Comm.Dup(ctx)
	if err != nil {
		return nil, err
	}
	return &Cart{Comm: sub, dims: g.dims, periodic: g.periodic}, nil
}

// Dims returns the extent and the periodicity of each dimension (MPI_Cart_get).
func (g *Cart) Dims() (dims []int, periodic []bool) {
	return slices.Clone(g.dims), slices.Clone(g.periodic)
}

// Coords returns the coordinates of a rank (MPI_Cart_coords).
func (g *Cart) Coords(rank int) ([]int, error) {
	if rank < 0 || rank >= g.Size() {
		return nil, opError("get coordinates", ErrRank, "rank %d is not in 0..%d", rank, g.Size()-1)
	}
	coords := make([]int, len(g.dims))
	for i := len(g.dims) - 1; i >= 0; i-- {
		coords[i] = rank % g.dims[i]
		rank /= g.dims[i]
	}
	return coords, nil
}

// RankAt returns the rank at coords (MPI_Cart_rank). A coordinate outside the grid wraps around in
// a periodic dimension. In other dimensions the rank is None.
func (g *Cart) RankAt(coords ...int) (int, error) {
	if len(coords) != len(g.dims) {
		return None, opError("get rank", ErrArgument, "%d coordinates for %d dimensions", len(coords), len(g.dims))
	}
	rank := 0
	for i, x := range coords {
		d := g.dims[i]
		if x < 0 || x >= d {
			if !g.periodic[i] {
				return None, nil
			}
			x = (x%d + d) % d
		}
		rank = rank*d + x
	}
	return rank, nil
}

// Shift returns the source and the destination of a shift by disp along dimension dim
// (MPI_Cart_shift). A rank beyond an edge is None, which sends and receives accept.
func (g *Cart) Shift(dim, disp int) (src, dst int, err error) {
	if dim < 0 || dim >= len(g.dims) {
		return None, None, opError("shift", ErrArgument, "dimension %d is not in 0..%d", dim, len(g.dims)-1)
	}
	at, err := g.Coords(g.Rank())
	if err != nil {
		return None, None, err
	}
	x := at[dim]
	at[dim] = x - disp
	if src, err = g.RankAt(at...); err != nil {
		return None, None, err
	}
	at[dim] = x + disp
	dst, err = g.RankAt(at...)
	return src, dst, err
}

// Neighbours returns the ranks before and after this one in every dimension, in the order before,
// after, before, after, ... A rank beyond an edge is None.
func (g *Cart) Neighbours() []int {
	out := make([]int, 0, 2*len(g.dims))
	for dim := range g.dims {
		before, after, _ := g.Shift(dim, 1) // dim is valid
		out = append(out, before, after)
	}
	return out
}

// Sub splits the grid into grids of the dimensions to keep (MPI_Cart_sub):
// rows or columns, for example. It is collective.
func (g *Cart) Sub(ctx context.Context, keep []bool) (*Cart, error) {
	if len(keep) != len(g.dims) {
		return nil, opError("split grid", ErrArgument, "%d choices for %d dimensions", len(keep), len(g.dims))
	}
	at, err := g.Coords(g.Rank())
	if err != nil {
		return nil, err
	}
	sub := &Cart{}
	color, key := 0, 0
	for i, d := range g.dims {
		if keep[i] {
			key = key*d + at[i]
			sub.dims = append(sub.dims, d)
			sub.periodic = append(sub.periodic, g.periodic[i])
		} else {
			color = color*d + at[i]
		}
	}
	sub.Comm, err = g.within(callCartSub).Split(ctx, color, key)
	if err != nil {
		return nil, err
	}
	return sub, nil
}
