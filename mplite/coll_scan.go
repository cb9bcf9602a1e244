package mplite

import "context"

// Scan sets recv on each rank to the reduction of the vectors send of the
// ranks up to and including it (MPI_Scan). All vectors have one length.
func Scan[T Number](ctx context.Context, c *Comm, send, recv []T, op Op[T]) error {
	x, err := c.begin(ctx, CollScan, elementOf[T]())
	if err != nil {
		return err
	}
	if err := checkOp(CollScan, op); err != nil {
		return err
	}
	if err := checkLen(CollScan, "recv", len(recv), len(send)); err != nil {
		return err
	}
	partial := scratch[T](c, 2*len(send))
	partial, in := partial[:len(send)], partial[len(send):]
	copy(partial, send)
	copy(recv, send)
	return prefixes(&x, partial, in, op, func([]T) { op.apply(recv, in, recv) })
}

// Exscan sets recv on each rank to the reduction of the vectors send of the
// ranks before it (MPI_Exscan). On rank 0 recv stays as it is.
func Exscan[T Number](ctx context.Context, c *Comm, send, recv []T, op Op[T]) error {
	x, err := c.begin(ctx, CollExscan, elementOf[T]())
	if err != nil {
		return err
	}
	if err := checkOp(CollExscan, op); err != nil {
		return err
	}
	if err := checkLen(CollExscan, "recv", len(recv), len(send)); err != nil {
		return err
	}
	partial := scratch[T](c, 2*len(send))
	partial, in := partial[:len(send)], partial[len(send):]
	copy(partial, send)
	first := true
	return prefixes(&x, partial, in, op, func([]T) {
		if first {
			copy(recv, in)
			first = false
			return
		}
		op.apply(recv, in, recv)
	})
}

// prefixes is recursive doubling: in round k, ranks that differ in bit k
// exchange the reduction of their block of 2^k ranks; lower calls with in when
// that is a block of lower ranks.
func prefixes[T Number](x *coll, partial, in []T, op Op[T], lower func(in []T)) error {
	for k := 1; k < x.size; k <<= 1 {
		peer := x.rank ^ k
		if peer >= x.size {
			continue
		}
		if err := x.swap(asBytes(partial), peer, asBytes(in), peer); err != nil {
			return err
		}
		if peer < x.rank {
			lower(in)
		}
		merge(op, partial, in, peer < x.rank)
	}
	return nil
}
