package mplite

import "context"

// Reduce reduces the vectors send of all ranks, element by element, into recv
// at root (MPI_Reduce). All vectors have one length; recv is not looked at on
// the other ranks. At root, a nil send means that recv holds its vector.
func Reduce[T Number](ctx context.Context, c *Comm, send, recv []T, op Op[T], root int) error {
	x, err := c.begin(ctx, CollReduce, elementOf[T]())
	if err != nil {
		return err
	}
	if err := checkOp(CollReduce, op); err != nil {
		return err
	}
	if err := c.checkRoot(CollReduce, root); err != nil {
		return err
	}
	if send == nil && x.rank == root {
		send = recv
	}
	if x.rank == root {
		if err := checkLen(CollReduce, "recv", len(recv), len(send)); err != nil {
			return err
		}
	}
	if len(send)*sizeOf[T]() >= reduceLong && len(send) >= x.size && x.size > 2 {
		return reduceHalving(&x, send, recv, op, root)
	}
	return reduceTree(&x, send, recv, op, root)
}

// reduceTree is a binomial tree. It is rooted at root; at rank 0, whose result
// then travels on, when the order of operands must be that of the ranks.
func reduceTree[T Number](x *coll, send, recv []T, op Op[T], root int) error {
	top := root
	if !op.commutative {
		top = 0
	}
	n := len(send)
	tmp := scratch[T](x.c, 2*n)
	acc, in := tmp[:n], tmp[n:]
	copy(acc, send)
	me := around(x.rank-top, x.size)
	for k := 1; k < x.size; k <<= 1 {
		if me&k != 0 {
			if err := x.send(asBytes(acc), around(me-k+top, x.size)); err != nil {
				return err
			}
			break
		}
		if me+k < x.size {
			if err := x.recv(asBytes(in), around(me+k+top, x.size)); err != nil {
				return err
			}
			op.apply(acc, acc, in)
		}
	}
	switch {
	case x.rank == top && top == root:
		copy(recv, acc)
	case x.rank == top:
		return x.send(asBytes(acc), root)
	case x.rank == root && top != root:
		return x.recv(asBytes(recv), top)
	}
	return nil
}

// reduceHalving is the reduce-scatter of Rabenseifner's algorithm, after which
// every rank sends its part to root.
func reduceHalving[T Number](x *coll, send, recv []T, op Op[T], root int) error {
	n := len(send)
	tmp := scratch[T](x.c, 2*n)
	v, in := tmp[:n], tmp[n:]
	copy(v, send)
	me, err := fold(x, v, in, op)
	if err != nil {
		return err
	}
	var path [64]span
	var mine span
	if me >= 0 {
		if mine, _, err = halve(x, v, in, op, me, path[:]); err != nil {
			return err
		}
	}
	if x.rank != root {
		if me < 0 {
			return nil
		}
		return x.send(asBytes(v[mine.lo:mine.hi]), root)
	}
	if me >= 0 {
		copy(recv[mine.lo:mine.hi], v[mine.lo:mine.hi])
	}
	for i := range floorPow2(x.size) {
		if i == me {
			continue
		}
		s := partAfterHalving(i, n, floorPow2(x.size))
		if err := x.recv(asBytes(recv[s.lo:s.hi]), x.unfolded(i)); err != nil {
			return err
		}
	}
	return nil
}

// partAfterHalving is the part of a vector of n that halve leaves to rank i.
func partAfterHalving(i, n, ranks int) span {
	s := span{0, n}
	for k := 1; k < ranks; k <<= 1 {
		lower, upper := s.halves()
		if s = lower; i&k != 0 {
			s = upper
		}
	}
	return s
}

// ReduceScatter reduces the vectors send of all ranks, element by element, and
// gives each rank its part of the result: counts[r] elements to rank r, in
// rank order (MPI_Reduce_scatter). counts is the same on all ranks.
func ReduceScatter[T Number](ctx context.Context, c *Comm, send, recv []T, counts []int, op Op[T]) error {
	x, err := c.begin(ctx, CollReduceScatter, elementOf[T]())
	if err != nil {
		return err
	}
	if err := checkOp(CollReduceScatter, op); err != nil {
		return err
	}
	parts, err := c.partsOf(CollReduceScatter, "send", counts, 1, len(send))
	if err != nil {
		return err
	}
	if err := checkLen(CollReduceScatter, "recv", len(recv), counts[x.rank]); err != nil {
		return err
	}
	if len(send)*sizeOf[T]() < reduceLong || !op.commutative {
		return reduceScatterAll(&x, send, recv, parts, op)
	}
	return reduceScatterPairs(&x, send, recv, parts, op)
}

// of returns the part of rank i, in elements.
func (l layout) of(i int) span {
	if i == 0 {
		return span{0, l.ends[0]}
	}
	return span{l.ends[i-1], l.ends[i]}
}

// reduceScatterAll is an allreduce of which each rank keeps its part.
func reduceScatterAll[T Number](x *coll, send, recv []T, parts layout, op Op[T]) error {
	v := make([]T, len(send)) // allreduce has the scratch memory
	copy(v, send)
	if err := allreduce(x, v, op); err != nil {
		return err
	}
	s := parts.of(x.rank)
	copy(recv, v[s.lo:s.hi])
	return nil
}

// reduceScatterPairs exchanges with every rank in turn; each sends only what
// the other keeps. Operands come in the order own rank, one before, ...: the
// operation must be commutative.
func reduceScatterPairs[T Number](x *coll, send, recv []T, parts layout, op Op[T]) error {
	in := scratch[T](x.c, len(recv))
	mine := parts.of(x.rank)
	copy(recv, send[mine.lo:mine.hi])
	for k := 1; k < x.size; k++ {
		dst, src := around(x.rank+k, x.size), around(x.rank-k, x.size)
		give := parts.of(dst)
		if err := x.swap(asBytes(send[give.lo:give.hi]), dst, asBytes(in), src); err != nil {
			return err
		}
		op.apply(recv, recv, in)
	}
	return nil
}
