package mplite

import "context"

// barrierCall is the signature of all barriers.
var barrierCall = signature{call: callBarrier, typ: rawBytes}

// Barrier waits until all ranks of c have called it (MPI_Barrier, MP_Sync).
func (c *Comm) Barrier(ctx context.Context) error {
	x, err := c.begin(ctx, barrierCall)
	if err != nil {
		return err
	}
	return x.barrier()
}

// Ibarrier starts a Barrier (MPI_Ibarrier). Its request completes when all ranks of c have started
// theirs.
func (c *Comm) Ibarrier() (Request, error) {
	x, err := c.plan(barrierCall, nil)
	if err != nil {
		return Request{}, err
	}
	return x.launch(x.barrier())
}

func (x *coll) barrier() error {
	switch x.choose(barrierRules, 0, 0, true) {
	case algShared:
		return x.barrierShared()
	case algHosts:
		return x.barrierHosts()
	case algDoubling:
		return x.barrierDoubling()
	}
	return x.barrierDissemination()
}

// barrierDoubling takes log2 rounds: in round k two ranks whose numbers differ by 2^k notify each other. These are the
// partners of an allreduce, so both together open half as many connections as with dissemination.
func (x *coll) barrierDoubling() error {
	for k := 1; k < x.size; k <<= 1 {
		if err := x.swap(nil, x.rank^k, nil, x.rank^k); err != nil {
			return err
		}
	}
	return nil
}

// barrierDissemination takes ceil(log2) rounds: in round k every rank notifies the rank 2^k after it.
func (x *coll) barrierDissemination() error {
	for k := 1; k < x.size; k <<= 1 {
		if err := x.swap(nil, around(x.rank+k, x.size), nil, around(x.rank-k, x.size)); err != nil {
			return err
		}
	}
	return nil
}

// Bcast sends buf from root to all ranks of c (MPI_Bcast, MP_Bcast). All ranks pass buffers of the
// same length.
func (c *Comm) Bcast(ctx context.Context, buf []byte, root int) error {
	return Bcast(ctx, c, buf, root)
}

// Bcast sends buf from root to all ranks of c (MPI_Bcast, MP_Bcast). All ranks pass buffers of the
// same length.
func Bcast[T any](ctx context.Context, c *Comm, buf []T, root int) error {
	x, err := c.begin(ctx, sign[T](callBcast, root, opNone, len(buf)))
	if err != nil {
		return err
	}
	return x.bcast(asBytes(buf), root, sizeOf[T]())
}

// Ibcast starts a Bcast (MPI_Ibcast).
func Ibcast[T any](c *Comm, buf []T, root int) (Request, error) {
	x, err := c.plan(sign[T](callBcast, root, opNone, len(buf)), nil)
	if err != nil {
		return Request{}, err
	}
	return x.launch(x.bcast(asBytes(buf), root, sizeOf[T]()))
}

// bcast selects the algorithm for elements of elem bytes.
func (x *coll) bcast(b []byte, root, elem int) error {
	if err := x.checkRoot(root); err != nil {
		return err
	}
	switch x.choose(bcastRules, len(b), 0, true) {
	case algShared:
		return x.bcastShared(b, root)
	case algHosts:
		return x.bcastHosts(b, root, elem)
	case algScatterRing:
		return x.bcastScatter(b, root, elem)
	}
	return x.bcastTree(b, root)
}

// bcastTree uses a binomial tree.
func (x *coll) bcastTree(b []byte, root int) error {
	me := around(x.rank-root, x.size)
	k := 1
	for ; k < x.size; k <<= 1 {
		if me&k != 0 {
			if err := x.recv(b, around(me-k+root, x.size)); err != nil {
				return err
			}
			break
		}
	}
	for k >>= 1; k > 0; k >>= 1 {
		if me+k < x.size {
			if err := x.send(b, around(me+k+root, x.size)); err != nil {
				return err
			}
		}
	}
	return nil
}

// bcastScatter is van de Geijn's algorithm: a binomial scatter, then a ring allgather. Each byte
// crosses each link twice, for any number of ranks.
func (x *coll) bcastScatter(b []byte, root, elem int) error {
	part := func(i int) (lo, hi int) { // of relative rank i, in whole elements
		n := len(b) / elem
		return n * i / x.size * elem, n * (i + 1) / x.size * elem
	}
	me := around(x.rank-root, x.size)
	span := x.size // relative ranks me .. me+span-1 are below me in the tree
	for k := 1; k < x.size; k <<= 1 {
		if me&k != 0 {
			span = min(k, x.size-me)
			lo, _ := part(me)
			_, hi := part(me + span - 1)
			if err := x.recv(b[lo:hi], around(me-k+root, x.size)); err != nil {
				return err
			}
			break
		}
	}
	for k := ceilPow2(span) >> 1; k > 0; k >>= 1 {
		if k < span {
			lo, _ := part(me + k)
			_, hi := part(me + span - 1)
			if err := x.send(b[lo:hi], around(me+k+root, x.size)); err != nil {
				return err
			}
			span = k
		}
	}
	next, prev := around(x.rank+1, x.size), around(x.rank-1, x.size)
	for k := range x.size - 1 {
		slo, shi := part(around(me-k, x.size))
		rlo, rhi := part(around(me-k-1, x.size))
		if err := x.swap(b[slo:shi], next, b[rlo:rhi], prev); err != nil {
			return err
		}
	}
	return nil
}

// ceilPow2 returns the smallest power of two that is at least n.
func ceilPow2(n int) int {
	if p := floorPow2(n); p < n {
		return 2 * p
	}
	return n
}
