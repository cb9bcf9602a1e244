package mplite

import "context"

// Reduce reduces the vectors send of all ranks, element by element, into recv at root (MPI_Reduce).
// All vectors have the same length. Other ranks ignore recv. At root, a nil send means that recv
// holds its vector (MPI_IN_PLACE).
func Reduce[T any](ctx context.Context, c *Comm, send, recv []T, op Op[T], root int) error {
	send = rootVector(c, send, recv, root)
	x, err := c.begin(ctx, sign[T](callReduce, root, op.code, len(send)))
	if err != nil {
		return err
	}
	return reduce(&x, send, recv, op, root)
}

// Ireduce starts a Reduce (MPI_Ireduce).
func Ireduce[T any](c *Comm, send, recv []T, op Op[T], root int) (Request, error) {
	send = rootVector(c, send, recv, root)
	x, err := c.plan(sign[T](callReduce, root, op.code, len(send)), erased(op))
	if err != nil {
		return Request{}, err
	}
	return x.launch(reduce(x, send, recv, op, root))
}

// rootVector returns the vector that the caller contributes.
func rootVector[T any](c *Comm, send, recv []T, root int) []T {
	if send == nil && c.rank == root {
		return recv
	}
	return send
}

func reduce[T any](x *coll, send, recv []T, op Op[T], root int) error {
	if err := x.checkRoot(root); err != nil {
		return err
	}
	if err := x.checkOp(op.code); err != nil {
		return err
	}
	if x.rank == root {
		if err := x.checkLen("recv", len(recv), len(send)); err != nil {
			return err
		}
	}
	switch x.choose(reduceRules, len(send)*sizeOf[T](), len(send), op.commutative) {
	case algShared:
		return reduceShared(x, send, recv, op, root)
	case algHosts:
		return reduceHosts(x, send, recv, op, root)
	case algHalvingGather:
		return reduceHalving(x, send, recv, op, root)
	}
	return reduceTree(x, send, recv, op, root)
}

// reduceTree uses a binomial tree, rooted at root. If the operands must keep the order of the
// ranks, it is rooted at rank 0, which then sends the result to root.
func reduceTree[T any](x *coll, send, recv []T, op Op[T], root int) error {
	top := root
	if !op.commutative {
		top = 0
	}
	n := len(send)
	tmp := scratch[T](x, 2*n)
	acc, in := tmp[:n], tmp[n:]
	if x.rank == top && top == root {
		acc = recv
	}
	v := send // this rank's partial result: its own vector, later reduced with the vectors received
	me := around(x.rank-top, x.size)
	for k := 1; k < x.size; k <<= 1 {
		if me&k != 0 {
			if err := x.send(asBytes(v), around(me-k+top, x.size)); err != nil {
				return err
			}
			break
		}
		if me+k < x.size {
			if err := x.recv(asBytes(in), around(me+k+top, x.size)); err != nil {
				return err
			}
			apply(x, op, acc, v, in)
			v = acc
		}
	}
	switch {
	case x.rank == top && top == root:
		if x.size == 1 {
			x.copy(asBytes(recv), asBytes(send))
		}
	case x.rank == top:
		return x.send(asBytes(v), root)
	case x.rank == root:
		return x.recv(asBytes(recv), top)
	}
	return nil
}

// reduceHalving is the reduce-scatter of Rabenseifner's algorithm. Then every rank sends its part
// to root.
func reduceHalving[T any](x *coll, send, recv []T, op Op[T], root int) error {
	n := len(send)
	tmp := scratch[T](x, 2*n)
	v, in := tmp[:n], tmp[n:]
	x.copy(asBytes(v), asBytes(send))
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
		x.copy(asBytes(recv[mine.lo:mine.hi]), asBytes(v[mine.lo:mine.hi]))
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

// partAfterHalving returns the part of a vector of n elements that halve leaves to rank i.
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
