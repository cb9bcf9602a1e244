package mplite

import (
	"context"
	"slices"
)

// None is the rank beyond the edge of a topology (MPI_PROC_NULL), as Shift
// returns it. It is not a rank to send to or receive from: leave those out.
const None = -2

// Cart is a communicator whose ranks are laid out as a grid (MPI_Cart). The
// last coordinate varies fastest. Its fields and methods may be used by any
// goroutine; for the communicator see Comm.
type Cart struct {
	*Comm
	dims     []int
	periodic []bool
}

// DimsCreate completes dims for n ranks (MPI_Dims_create): every 0 is replaced
// so that the product is n and the factors are as close to each other as
// possible, larger ones first. Non-zero entries stay.
func DimsCreate(n int, dims []int) error {
	fixed, open := 1, 0
	for _, d := range dims {
		switch {
		case d < 0:
			return opError("create dimensions", ErrArgument, "dimension %d is negative", d)
		case d == 0:
			open++
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

// balanced returns n as a product of k factors, the largest as small as
// possible, then the second largest, and so on.
func balanced(n, k int) []int {
	if k == 1 {
		return []int{n}
	}
	var best []int
	for first := 1; first <= n; first++ {
		if n%first != 0 || pow(first, k) < n { // the largest is at least the k-th root
			continue
		}
		rest := balanced(n/first, k-1)
		if rest[0] <= first {
			best = append([]int{first}, rest...)
			break
		}
	}
	return best
}

// pow returns b to the power of k, or a large number when that is larger.
func pow(b, k int) int {
	const large = 1 << 31
	p := 1
	for range k {
		if p *= b; p > large {
			return large
		}
	}
	return p
}

// CartCreate lays out the ranks of c as a grid (MPI_Cart_create). It is
// collective. Ranks beyond the grid get nil. The others keep their order: on
// one segment every rank is equally far from every other, so that MPI's right
// to number them anew has nothing to gain.
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
	sub, err := c.Split(ctx, color, c.rank)
	if err != nil || sub == nil {
		return nil, err
	}
	return &Cart{Comm: sub, dims: slices.Clone(dims), periodic: slices.Clone(periodic)}, nil
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

// RankAt returns the rank at coords (MPI_Cart_rank). A coordinate outside the
// grid wraps around in a periodic dimension; in another one the rank is None.
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

// Shift returns the rank that a shift by disp along dimension dim receives
// from, and the one that it sends to (MPI_Cart_shift); None beyond an edge.
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

// Neighbours returns the ranks before and after this one in every dimension,
// in the order before, after, before, after, ...; None beyond an edge.
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
	sub.Comm, err = g.Split(ctx, color, key)
	if err != nil {
		return nil, err
	}
	return sub, nil
}
