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
	if inPlace { // where others' parts are still to be sent from
		send = make([]T, len(send))
		x.copy(asBytes(send), asBytes(whole))
	}
	if len(send)*sizeOf[T]() < reduceLong || !op.commutative {
		return reduceScatterAll(x, send, recv, parts, op)
	}
	return reduceScatterPairs(x, send, recv, parts, op)
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
