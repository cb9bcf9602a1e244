package mplite

import "context"

// Allgather collects the parts send of all ranks, which have one length, in
// rank order on every rank (MPI_Allgather, MP_Gather). recv is Size times as
// long. A nil send means that this rank's part is in place in recv.
func Allgather[T Number](ctx context.Context, c *Comm, send, recv []T) error {
	x, err := c.begin(ctx, CollAllgather, elementOf[T]())
	if err != nil {
		return err
	}
	n := len(send)
	if send == nil {
		n = len(recv) / x.size
	}
	if err := checkLen(CollAllgather, "recv", len(recv), x.size*n); err != nil {
		return err
	}
	if send != nil {
		copy(recv[x.rank*n:], send)
	}
	b := asBytes(recv)
	if len(b) <= allgatherShort && x.size > 2 {
		return x.allgatherBruck(b)
	}
	return x.allgatherRing(b, layout{block: len(b) / x.size})
}

// Allgatherv collects parts of any length on every rank, packed in rank order
// (MPI_Allgatherv): counts[r] elements from rank r, the same counts on all
// ranks. A nil send means that this rank's part is in place in recv.
func Allgatherv[T Number](ctx context.Context, c *Comm, send, recv []T, counts []int) error {
	x, err := c.begin(ctx, CollAllgather, elementOf[T]())
	if err != nil {
		return err
	}
	parts, err := c.partsOf(CollAllgather, "recv", counts, sizeOf[T](), len(recv))
	if err != nil {
		return err
	}
	b := asBytes(recv)
	if send != nil {
		if err := checkLen(CollAllgather, "send", len(send), counts[x.rank]); err != nil {
			return err
		}
		copy(parts.part(b, x.rank), asBytes(send))
	}
	return x.allgatherRing(b, parts)
}

// allgatherRing passes each part once around.
func (x *coll) allgatherRing(b []byte, parts layout) error {
	next, prev := around(x.rank+1, x.size), around(x.rank-1, x.size)
	for k := range x.size - 1 {
		give, get := around(x.rank-k, x.size), around(x.rank-k-1, x.size)
		if err := x.swap(parts.part(b, give), next, parts.part(b, get), prev); err != nil {
			return err
		}
	}
	return nil
}

// allgatherBruck takes ceil(log2) rounds for any number of ranks: in round k
// each rank has the parts of 2^k ranks from itself on, and gets as many more
// from the rank 2^k further on.
func (x *coll) allgatherBruck(b []byte) error {
	block := len(b) / x.size
	tmp := x.c.scratchBytes(len(b))
	copy(tmp, b[block*x.rank:block*(x.rank+1)])
	for k := 1; k < x.size; k <<= 1 {
		n := min(k, x.size-k)
		dst, src := around(x.rank-k, x.size), around(x.rank+k, x.size)
		if err := x.swap(tmp[:n*block], dst, tmp[k*block:(k+n)*block], src); err != nil {
			return err
		}
	}
	n := copy(b[block*x.rank:], tmp)
	copy(b, tmp[n:])
	return nil
}
