package mplite

import "context"

// Gather collects the parts send of all ranks, which have one length, at root
// (MPI_Gather). There recv gets them in rank order and is Size times as long;
// on the other ranks recv is not looked at.
func Gather[T Number](ctx context.Context, c *Comm, send, recv []T, root int) error {
	x, err := c.begin(ctx, CollGather, elementOf[T]())
	if err != nil {
		return err
	}
	if err := c.checkRoot(CollGather, root); err != nil {
		return err
	}
	if x.rank == root {
		if err := checkLen(CollGather, "recv", len(recv), x.size*len(send)); err != nil {
			return err
		}
	}
	b := asBytes(send)
	if len(b) <= gatherShort && x.size > 2 {
		return x.gatherTree(b, asBytes(recv), root)
	}
	return x.gatherDirect(b, asBytes(recv), layout{block: len(b)}, root)
}

// Gatherv collects parts of any length at root (MPI_Gatherv). There counts[r]
// is the number of elements from rank r, and recv gets them packed in rank
// order; on the other ranks recv and counts are not looked at.
func Gatherv[T Number](ctx context.Context, c *Comm, send, recv []T, counts []int, root int) error {
	x, err := c.begin(ctx, CollGather, elementOf[T]())
	if err != nil {
		return err
	}
	if err := c.checkRoot(CollGather, root); err != nil {
		return err
	}
	var parts layout
	if x.rank == root {
		if parts, err = c.partsOf(CollGather, "recv", counts, sizeOf[T](), len(recv)); err != nil {
			return err
		}
		if err := checkLen(CollGather, "send", len(send), counts[root]); err != nil {
			return err
		}
	}
	return x.gatherDirect(asBytes(send), asBytes(recv), parts, root)
}

// gatherDirect receives from each rank straight to where its part belongs.
func (x *coll) gatherDirect(send, recv []byte, parts layout, root int) error {
	if x.rank != root {
		return x.send(send, root)
	}
	copy(parts.part(recv, root), send)
	return x.fromAll(recv, parts)
}

// fromAll receives every other rank's part, all at the same time.
func (x *coll) fromAll(recv []byte, parts layout) error {
	reqs := make([]*Request, x.size)
	for i := range reqs {
		if i == x.rank {
			continue
		}
		r, err := x.c.irecv(parts.part(recv, i), i, x.tag, x.s)
		if err != nil {
			return err
		}
		reqs[i] = r
	}
	var first error
	for i, r := range reqs {
		if r == nil {
			continue
		}
		st, err := r.end(x.ctx)
		if err = x.checked(st, err, len(parts.part(recv, i))); first == nil {
			first = err
		}
	}
	return first
}

// end is Wait for requests that no user knows: it cancels when ctx ends.
func (r *Request) end(ctx context.Context) (Status, error) {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	return r.w.finish(ctx, r)
}

// gatherTree collects in a binomial tree of ranks relative to root: each sends
// its own and its subtree's parts, which lie side by side, in one message.
func (x *coll) gatherTree(send, recv []byte, root int) error {
	block := len(send)
	me := around(x.rank-root, x.size)
	tmp := x.c.scratchBytes(block * min(floorPow2(x.size)*2, x.size))
	copy(tmp, send)
	for k := 1; k < x.size; k <<= 1 {
		if me&k != 0 {
			return x.send(tmp[:block*min(k, x.size-me)], around(me-k+root, x.size))
		}
		if me+k < x.size {
			theirs := min(k, x.size-me-k)
			if err := x.recv(tmp[block*k:block*(k+theirs)], around(me+k+root, x.size)); err != nil {
				return err
			}
		}
	}
	n := copy(recv[block*root:], tmp[:block*(x.size-root)])
	copy(recv, tmp[n:block*x.size])
	return nil
}

// Scatter gives each rank its part of send at root (MPI_Scatter), in rank
// order. All parts recv have one length, and send is Size times as long; on
// ranks other than root it is not looked at.
func Scatter[T Number](ctx context.Context, c *Comm, send, recv []T, root int) error {
	x, err := c.begin(ctx, CollScatter, elementOf[T]())
	if err != nil {
		return err
	}
	if err := c.checkRoot(CollScatter, root); err != nil {
		return err
	}
	if x.rank == root {
		if err := checkLen(CollScatter, "send", len(send), x.size*len(recv)); err != nil {
			return err
		}
	}
	b := asBytes(recv)
	if len(b) <= gatherShort && x.size > 2 {
		return x.scatterTree(asBytes(send), b, root)
	}
	return x.scatterDirect(asBytes(send), b, layout{block: len(b)}, root)
}

// Scatterv gives each rank its part of send at root (MPI_Scatterv): counts[r]
// elements to rank r, packed in rank order. On ranks other than root send and
// counts are not looked at.
func Scatterv[T Number](ctx context.Context, c *Comm, send []T, counts []int, recv []T, root int) error {
	x, err := c.begin(ctx, CollScatter, elementOf[T]())
	if err != nil {
		return err
	}
	if err := c.checkRoot(CollScatter, root); err != nil {
		return err
	}
	var parts layout
	if x.rank == root {
		if parts, err = c.partsOf(CollScatter, "send", counts, sizeOf[T](), len(send)); err != nil {
			return err
		}
		if err := checkLen(CollScatter, "recv", len(recv), counts[root]); err != nil {
			return err
		}
	}
	return x.scatterDirect(asBytes(send), asBytes(recv), parts, root)
}

// scatterDirect sends each rank its part, all at the same time.
func (x *coll) scatterDirect(send, recv []byte, parts layout, root int) error {
	if x.rank != root {
		return x.recv(recv, root)
	}
	copy(recv, parts.part(send, root))
	reqs := make([]*Request, x.size)
	var first error
	for k := 1; k < x.size; k++ {
		dst := around(root+k, x.size)
		r, err := x.c.isend(parts.part(send, dst), dst, x.tag, x.s)
		if first == nil {
			first = err
		}
		reqs[dst] = r
	}
	for _, r := range reqs {
		if r == nil {
			continue
		}
		if _, err := r.end(x.ctx); first == nil {
			first = err
		}
	}
	return first
}

// scatterTree is gatherTree the other way round.
func (x *coll) scatterTree(send, recv []byte, root int) error {
	block := len(recv)
	me := around(x.rank-root, x.size)
	tmp := x.c.scratchBytes(block * x.size)
	k := ceilPow2(x.size)
	if me == 0 {
		n := copy(tmp, send[block*root:])
		copy(tmp[n:], send[:block*root])
	} else {
		k = me & -me
		if err := x.recv(tmp[:block*min(k, x.size-me)], around(me-k+root, x.size)); err != nil {
			return err
		}
	}
	for k >>= 1; k > 0; k >>= 1 {
		if me+k < x.size {
			theirs := min(k, x.size-me-k)
			if err := x.send(tmp[block*k:block*(k+theirs)], around(me+k+root, x.size)); err != nil {
				return err
			}
		}
	}
	copy(recv, tmp)
	return nil
}
