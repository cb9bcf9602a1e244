package mplite

import "context"

// Scan sets recv on each rank to the reduction of the vectors send of all ranks up to and including
// this one (MPI_Scan). All vectors have the same length. A nil send means that recv holds this
// rank's vector (MPI_IN_PLACE).
func Scan[T any](ctx context.Context, c *Comm, send, recv []T, op Op[T]) error {
	x, err := c.begin(ctx, sign[T](callScan, 0, op.code, len(recv)))
	if err != nil {
		return err
	}
	return scan(&x, send, recv, op)
}

// Iscan starts a Scan (MPI_Iscan).
func Iscan[T any](c *Comm, send, recv []T, op Op[T]) (Request, error) {
	x, err := c.plan(sign[T](callScan, 0, op.code, len(recv)), erased(op))
	if err != nil {
		return Request{}, err
	}
	return x.launch(scan(x, send, recv, op))
}

func scan[T any](x *coll, send, recv []T, op Op[T]) error {
	partial, in, err := prefixBuffers(x, send, recv, op)
	if err != nil {
		return err
	}
	if send != nil {
		x.copy(asBytes(recv), asBytes(send))
	}
	return prefixes(x, partial, in, op, func(in []T) { apply(x, op, recv, in, recv) })
}

// Exscan sets recv on each rank to the reduction of the vectors send of all ranks before this one
// (MPI_Exscan). On rank 0 recv is unchanged. A nil send means that recv holds this rank's vector
// (MPI_IN_PLACE).
func Exscan[T any](ctx context.Context, c *Comm, send, recv []T, op Op[T]) error {
	x, err := c.begin(ctx, sign[T](callExscan, 0, op.code, len(recv)))
	if err != nil {
		return err
	}
	return exscan(&x, send, recv, op)
}

// Iexscan starts an Exscan (MPI_Iexscan).
func Iexscan[T any](c *Comm, send, recv []T, op Op[T]) (Request, error) {
	x, err := c.plan(sign[T](callExscan, 0, op.code, len(recv)), erased(op))
	if err != nil {
		return Request{}, err
	}
	return x.launch(exscan(x, send, recv, op))
}

func exscan[T any](x *coll, send, recv []T, op Op[T]) error {
	partial, in, err := prefixBuffers(x, send, recv, op)
	if err != nil {
		return err
	}
	first := true
	return prefixes(x, partial, in, op, func(in []T) {
		if first {
			x.copy(asBytes(recv), asBytes(in))
			first = false
			return
		}
		apply(x, op, recv, in, recv)
	})
}

// prefixBuffers checks the arguments of a Scan or Exscan. It returns the vector that this rank
// contributes, which may be overwritten, and a buffer for another vector.
func prefixBuffers[T any](x *coll, send, recv []T, op Op[T]) (partial, in []T, err error) {
	if err := x.checkOp(op.code); err != nil {
		return nil, nil, err
	}
	if send == nil {
		send = recv
	}
	if err := x.checkLen("send", len(send), len(recv)); err != nil {
		return nil, nil, err
	}
	tmp := scratch[T](x, 2*len(send))
	partial, in = tmp[:len(send)], tmp[len(send):]
	if !x.sendsAfter(x.rank, 1) { // the rank sends at most in the first round, before its vector changes: no copy is needed
		return send, in, nil
	}
	x.copy(asBytes(partial), asBytes(send))
	return partial, in, nil
}

// prefixes is recursive doubling without the messages that no result needs. In round k the ranks of
// each block of 2k ranks that lack bit k send the reduction of their half of the block to the ranks
// that have the bit, which need it for their result. The latter answer only if the former need the
// answer to send in a later round. prefixes calls lower with each vector from lower ranks.
func prefixes[T any](x *coll, partial, in []T, op Op[T], lower func(in []T)) error {
	if x.choose(scanRules, len(in)*sizeOf[T](), 0, op.commutative) == algShared {
		return prefixesShared(x, partial, op, lower)
	}
	for k := 1; k < x.size; k <<= 1 {
		peer := x.rank ^ k
		if peer >= x.size {
			continue
		}
		grows := x.sendsAfter(x.rank, k)
		var err error
		switch {
		case peer > x.rank && !grows:
			err = x.send(asBytes(partial), peer)
		case peer < x.rank && !x.sendsAfter(peer, k):
			err = x.recv(asBytes(in), peer)
		default:
			err = x.swap(asBytes(partial), peer, asBytes(in), peer)
		}
		if err != nil {
			return err
		}
		if peer < x.rank {
			lower(in)
		}
		if grows {
			merge(x, op, partial, in, peer < x.rank)
		}
	}
	return nil
}

// sendsAfter reports whether a rank sends in a round of prefixes after round k.
func (x *coll) sendsAfter(rank, k int) bool {
	for k <<= 1; k < x.size; k <<= 1 {
		if peer := rank ^ k; peer < x.size && (peer > rank || x.sendsAfter(peer, k)) {
			return true
		}
	}
	return false
}
