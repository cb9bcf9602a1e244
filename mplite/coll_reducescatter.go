package mplite

import "context"

// ReduceScatter reduces the vectors send of all ranks, element by element, and gives each rank its
// part of the result: counts[r] elements to rank r, in rank order (MPI_Reduce_scatter). counts is
// the same on all ranks. A nil send means that recv holds this rank's whole vector (MPI_IN_PLACE).
// Its first counts[Rank] elements then receive the result, and the others are undefined.
func ReduceScatter[T any](ctx context.Context, c *Comm, send, recv []T, counts []int, op Op[T]) error {
	x, err := c.begin(ctx, sign[T](callReduceScatter, 0, op.code, total(counts)))
	if err != nil {
		return err
	}
	return reduceScatter(&x, send, recv, counts, op)
}

// IreduceScatter starts a ReduceScatter (MPI_Ireduce_scatter).
func IreduceScatter[T any](c *Comm, send, recv []T, counts []int, op Op[T]) (Request, error) {
	x, err := c.plan(sign[T](callReduceScatter, 0, op.code, total(counts)), erased(op))
	if err != nil {
		return Request{}, err
	}
	return x.launch(reduceScatter(x, send, recv, counts, op))
}

func reduceScatter[T any](x *coll, send, recv []T, counts []int, op Op[T]) error {
	if err := x.checkOp(op.code); err != nil {
		return err
	}
	name, inPlace := "send", send == nil
	if inPlace {
		name, send = "recv", recv
	}
	parts, err := x.partsOf(name, counts, nil, 1, len(send))
	if err != nil {
		return err
	}
	whole := recv
	if inPlace {
		recv = recv[:counts[x.rank]]
	}
	if err := x.checkLen("recv", len(recv), counts[x.rank]); err != nil {
		return err
	}
	if inPlace { // the result overwrites whole, which still holds the parts to send
		send = make([]T, len(send))
		x.copy(asBytes(send), asBytes(whole))
	}
	switch x.choose(reduceScatterRules, len(send)*sizeOf[T](), len(send), op.commutative) {
	case algShared:
		return reduceScatterShared(x, send, recv, parts, op)
	case algHalving:
		return reduceScatterHalving(x, send, recv, parts, op)
	case algPairs:
		return reduceScatterPairs(x, send, recv, parts, op)
	}
	return reduceScatterAll(x, send, recv, parts, op)
}

// of returns the part of rank i, in elements.
func (l layout) of(i int) span { return span{l.starts[i], l.ends[i]} }

// reduceScatterAll is an allreduce after which each rank keeps only its part.
func reduceScatterAll[T any](x *coll, send, recv []T, parts layout, op Op[T]) error {
	v := make([]T, len(send)) // allreduce has the scratch memory
	x.copy(asBytes(v), asBytes(send))
	if err := allreduce(x, v, op); err != nil {
		return err
	}
	s := parts.of(x.rank)
	x.copy(asBytes(recv), asBytes(v[s.lo:s.hi]))
	return nil
}

// reduceScatterPairs exchanges data with every rank in turn. Each rank sends only the part that the
// other one keeps. The operands come in the order own rank, previous rank, and so on: the operation
// must be commutative.
func reduceScatterPairs[T any](x *coll, send, recv []T, parts layout, op Op[T]) error {
	in := scratch[T](x, len(recv))
	mine := parts.of(x.rank)
	x.copy(asBytes(recv), asBytes(send[mine.lo:mine.hi]))
	for k := 1; k < x.size; k++ {
		dst, src := around(x.rank+k, x.size), around(x.rank-k, x.size)
		give := parts.of(dst)
		if err := x.swap(asBytes(send[give.lo:give.hi]), dst, asBytes(in), src); err != nil {
			return err
		}
		apply(x, op, recv, recv, in)
	}
	return nil
}

// reduceScatterHalving is recursive halving: log2 rounds, the first with half of the vector. After
// fold each remaining rank stands for one or two neighbours, whose parts are adjacent. In each round
// it keeps the half of the parts with its own, and sends the other half to the rank that keeps that.
// The operation must be commutative.
func reduceScatterHalving[T any](x *coll, send, recv []T, parts layout, op Op[T]) error {
	n := len(send)
	tmp := scratch[T](x, 2*n)
	v, in := tmp[:n], tmp[n:]
	x.copy(asBytes(v), asBytes(send))
	me, err := fold(x, v, in, op)
	if err != nil {
		return err
	}
	lo, hi := 0, floorPow2(x.size)
	for k := hi / 2; me >= 0 && k > 0; k /= 2 {
		mid := lo + k
		keep, give := x.foldedSpan(parts, lo, mid), x.foldedSpan(parts, mid, hi)
		if me&k == 0 {
			hi = mid
		} else {
			keep, give, lo = give, keep, mid
		}
		peer, got := x.unfolded(me^k), in[:keep.hi-keep.lo]
		if err := x.swap(asBytes(v[give.lo:give.hi]), peer, asBytes(got), peer); err != nil {
			return err
		}
		apply(x, op, v[keep.lo:keep.hi], v[keep.lo:keep.hi], got)
	}
	if me < 0 {
		return x.recv(asBytes(recv), x.rank+1)
	}
	mine := parts.of(x.rank)
	x.copy(asBytes(recv), asBytes(v[mine.lo:mine.hi]))
	if x.foldedFirst(me) == x.rank {
		return nil
	}
	theirs := parts.of(x.rank - 1)
	return x.send(asBytes(v[theirs.lo:theirs.hi]), x.rank-1)
}

// foldedFirst returns the first of the ranks that number i stands for after fold.
func (x *coll) foldedFirst(i int) int {
	if extra := x.size - floorPow2(x.size); i < extra {
		return 2 * i
	}
	return x.unfolded(i)
}

// foldedSpan returns the parts of the ranks that numbers lo up to hi stand for.
func (x *coll) foldedSpan(parts layout, lo, hi int) span {
	return span{parts.starts[x.foldedFirst(lo)], parts.ends[x.unfolded(hi-1)]}
}
