package mplite

import "context"

// Allreduce reduces the vectors send of all ranks, element by element, into recv on every rank
// (MPI_Allreduce; with Sum, Min, Max: MP_Sum, MP_Min, MP_Max). All vectors have the same length. A
// nil send means that recv holds this rank's vector (MPI_IN_PLACE).
func Allreduce[T any](ctx context.Context, c *Comm, send, recv []T, op Op[T]) error {
	x, err := c.begin(ctx, sign[T](callAllreduce, 0, op.code, len(recv)))
	if err != nil {
		return err
	}
	return allreduceInto(&x, send, recv, op)
}

// Iallreduce starts an Allreduce (MPI_Iallreduce).
func Iallreduce[T any](c *Comm, send, recv []T, op Op[T]) (Request, error) {
	x, err := c.plan(sign[T](callAllreduce, 0, op.code, len(recv)), erased(op))
	if err != nil {
		return Request{}, err
	}
	return x.launch(allreduceInto(x, send, recv, op))
}

func allreduceInto[T any](x *coll, send, recv []T, op Op[T]) error {
	if err := x.checkOp(op.code); err != nil {
		return err
	}
	if send != nil {
		if err := x.checkLen("send", len(send), len(recv)); err != nil {
			return err
		}
		x.copy(asBytes(recv), asBytes(send))
	}
	return allreduce(x, recv, op)
}

func allreduce[T any](x *coll, v []T, op Op[T]) error {
	switch x.choose(allreduceRules, len(v)*sizeOf[T](), len(v), op.commutative) {
	case algShared:
		return allreduceShared(x, v, op)
	case algHosts:
		return allreduceHosts(x, v, op)
	case algReduceRing:
		return allreduceRing(x, v, op)
	case algRabenseifner:
		return allreduceHalving(x, v, op)
	}
	return allreduceDoubling(x, v, op)
}

// fold reduces the number of ranks to a power of two. In the first pairs of neighbours, the even
// rank sends its vector to the odd one and then waits for the result. fold returns this rank's
// number among the remaining ranks, or -1 if it waits.
func fold[T any](x *coll, v, tmp []T, op Op[T]) (int, error) {
	extra := x.size - floorPow2(x.size)
	switch {
	case x.rank >= 2*extra:
		return x.rank - extra, nil
	case x.rank%2 == 0:
		return -1, x.send(asBytes(v), x.rank+1)
	}
	if err := x.recv(asBytes(tmp), x.rank-1); err != nil {
		return 0, err
	}
	apply(x, op, v, tmp, v)
	return x.rank / 2, nil
}

// unfold sends the result to the ranks that wait.
func unfold[T any](x *coll, v []T) error {
	extra := x.size - floorPow2(x.size)
	switch {
	case x.rank >= 2*extra:
		return nil
	case x.rank%2 == 0:
		return x.recv(asBytes(v), x.rank+1)
	}
	return x.send(asBytes(v), x.rank-1)
}

// unfolded returns the rank that has number i after fold.
func (x *coll) unfolded(i int) int {
	if extra := x.size - floorPow2(x.size); i >= extra {
		return i + extra
	}
	return 2*i + 1
}

// merge sets v to the reduction of v and other, the vector of another block of ranks. The lower
// ranks are the left operand.
func merge[T any](x *coll, op Op[T], v, other []T, otherLower bool) {
	if otherLower {
		apply(x, op, v, other, v)
	} else {
		apply(x, op, v, v, other)
	}
}

// allreduceDoubling is recursive doubling: log2 rounds, the whole vector each.
func allreduceDoubling[T any](x *coll, v []T, op Op[T]) error {
	tmp := scratch[T](x, len(v))
	me, err := fold(x, v, tmp, op)
	if err != nil {
		return err
	}
	for k := 1; me >= 0 && k < floorPow2(x.size); k <<= 1 {
		peer := x.unfolded(me ^ k)
		if err := x.swap(asBytes(v), peer, asBytes(tmp), peer); err != nil {
			return err
		}
		merge(x, op, v, tmp, me&k != 0)
	}
	return unfold(x, v)
}

// span is a part of a vector, from lo up to hi.
type span struct{ lo, hi int }

func (s span) halves() (lower, upper span) {
	mid := s.lo + (s.hi-s.lo)/2
	return span{s.lo, mid}, span{mid, s.hi}
}

// halve does the reduce-scatter of Rabenseifner's algorithm among the ranks that remain after fold.
// In each round the partners are twice as far apart, and split the part that they share. Starting
// with near partners keeps blocks of ranks contiguous, and so the order of operands. path receives
// the part before each round.
func halve[T any](x *coll, v, tmp []T, op Op[T], me int, path []span) (mine span, rounds int, err error) {
	mine = span{0, len(v)}
	for k := 1; k < floorPow2(x.size); k <<= 1 {
		path[rounds] = mine
		rounds++
		keep, give := mine.halves()
		if me&k != 0 {
			keep, give = give, keep
		}
		peer := x.unfolded(me ^ k)
		in := tmp[:keep.hi-keep.lo]
		if err := x.swap(asBytes(v[give.lo:give.hi]), peer, asBytes(in), peer); err != nil {
			return mine, 0, err
		}
		merge(x, op, v[keep.lo:keep.hi], in, me&k != 0)
		mine = keep
	}
	return mine, rounds, nil
}

// allreduceHalving is Rabenseifner's algorithm: halve, and then its reverse as an allgather. Each
// rank sends about twice the size of the vector in all.
func allreduceHalving[T any](x *coll, v []T, op Op[T]) error {
	tmp := scratch[T](x, len(v))
	me, err := fold(x, v, tmp, op)
	if err != nil {
		return err
	}
	if me >= 0 {
		var path [64]span
		mine, rounds, err := halve(x, v, tmp, op, me, path[:])
		if err != nil {
			return err
		}
		for i := rounds - 1; i >= 0; i-- {
			lower, upper := path[i].halves()
			theirs := upper
			if mine == upper {
				theirs = lower
			}
			peer := x.unfolded(me ^ 1<<i)
			if err := x.swap(asBytes(v[mine.lo:mine.hi]), peer, asBytes(v[theirs.lo:theirs.hi]), peer); err != nil {
				return err
			}
			mine = path[i]
		}
	}
	return unfold(x, v)
}

// allreduceRing is a ring reduce-scatter and a ring allgather. It sends as few bytes as halving,
// for any number of ranks. But the order of operands starts at a different rank in each part, so
// the operation must be commutative.
func allreduceRing[T any](x *coll, v []T, op Op[T]) error {
	part := func(i int) []T {
		i = around(i, x.size)
		return v[len(v)*i/x.size : len(v)*(i+1)/x.size]
	}
	next, prev := around(x.rank+1, x.size), around(x.rank-1, x.size)
	tmp := scratch[T](x, len(v)/x.size+1)
	for k := range x.size - 1 {
		give, keep := part(x.rank-k), part(x.rank-k-1)
		in := tmp[:len(keep)]
		if err := x.swap(asBytes(give), next, asBytes(in), prev); err != nil {
			return err
		}
		apply(x, op, keep, in, keep)
	}
	for k := range x.size - 1 {
		give, get := part(x.rank-k+1), part(x.rank-k)
		if err := x.swap(asBytes(give), next, asBytes(get), prev); err != nil {
			return err
		}
	}
	return nil
}
