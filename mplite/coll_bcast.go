package mplite

import "context"

// Barrier waits until all ranks of c have called it (MPI_Barrier, MP_Sync).
func (c *Comm) Barrier(ctx context.Context) error {
	x, err := c.begin(ctx, CollBarrier, rawBytes)
	if err != nil {
		return err
	}
	return x.barrier()
}

// barrier is the dissemination algorithm: in round k every rank tells the one
// 2^k further on.
func (x *coll) barrier() error {
	for k := 1; k < x.size; k <<= 1 {
		if err := x.swap(nil, around(x.rank+k, x.size), nil, around(x.rank-k, x.size)); err != nil {
			return err
		}
	}
	return nil
}

// Bcast sends buf from root to all ranks of c (MPI_Bcast, MP_Bcast). All give
// buffers of one length.
func (c *Comm) Bcast(ctx context.Context, buf []byte, root int) error {
	return Bcast(ctx, c, buf, root)
}

// Bcast sends buf from root to all ranks of c (MPI_Bcast, MP_Bcast). All give
// buffers of one length.
func Bcast[T Number](ctx context.Context, c *Comm, buf []T, root int) error {
	x, err := c.begin(ctx, CollBcast, elementOf[T]())
	if err != nil {
		return err
	}
	if err := c.checkRoot(CollBcast, root); err != nil {
		return err
	}
	b := asBytes(buf)
	if len(b) >= bcastLong && x.size >= 4 {
		return x.bcastScatter(b, root, sizeOf[T]())
	}
	return x.bcastTree(b, root)
}

// bcastTree is a binomial tree.
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

// bcastScatter is van de Geijn's algorithm: a binomial scatter, then a ring
// allgather. Each byte crosses each line twice, however many ranks there are.
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

// ceilPow2 returns the smallest power of two from n up.
func ceilPow2(n int) int {
	if p := floorPow2(n); p < n {
		return 2 * p
	}
	return n
}
