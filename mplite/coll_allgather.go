package mplite

import "context"

// Allgather collects the parts send of all ranks, in rank order, on every rank (MPI_Allgather,
// MP_Gather). All parts have the same length, and recv is Size times as long. A nil send means that
// this rank's part is already in place in recv (MPI_IN_PLACE).
func Allgather[T any](ctx context.Context, c *Comm, send, recv []T) error {
	x, err := c.begin(ctx, sign[T](callAllgather, 0, opNone, partLen(c, send, recv)))
	if err != nil {
		return err
	}
	return allgather(&x, send, recv)
}

// Iallgather starts an Allgather (MPI_Iallgather).
func Iallgather[T any](c *Comm, send, recv []T) (Request, error) {
	x, err := c.plan(sign[T](callAllgather, 0, opNone, partLen(c, send, recv)), nil)
	if err != nil {
		return Request{}, err
	}
	return x.launch(allgather(x, send, recv))
}

// partLen returns the length of one rank's part, which may already be in place in the buffer of all
// parts.
func partLen[T any](c *Comm, part, all []T) int {
	if part == nil {
		return len(all) / len(c.group)
	}
	return len(part)
}

func allgather[T any](x *coll, send, recv []T) error {
	n := partLen(x.c, send, recv)
	if err := x.checkLen("recv", len(recv), x.size*n); err != nil {
		return err
	}
	b := asBytes(recv)
	x.copy(b[x.rank*n*sizeOf[T]():], asBytes(send))
	switch x.choose(allgatherRules, len(b), 0, true) {
	case algShared:
		return x.allgatherShared(b, layout{block: len(b) / x.size})
	case algHosts:
		return x.allgatherHosts(b)
	case algDoubling:
		return x.allgatherDoubling(b)
	case algBruck:
		return x.allgatherBruck(b)
	case algTogether:
		return x.allgatherTogether(b, layout{block: len(b) / x.size})
	}
	return x.allgatherRing(b, layout{block: len(b) / x.size})
}

// Allgatherv collects parts of any length on every rank (MPI_Allgatherv): counts[r] elements from
// rank r, with the same counts on all ranks. In recv the parts are packed in rank order. With the
// optional displs, the part of rank r begins at element displs[0][r] of recv. A nil send means that
// this rank's part is already in place in recv (MPI_IN_PLACE).
func Allgatherv[T any](ctx context.Context, c *Comm, send, recv []T, counts []int, displs ...[]int) error {
	x, err := c.begin(ctx, sign[T](callAllgatherv, 0, opNone, total(counts)))
	if err != nil {
		return err
	}
	return allgatherv(&x, send, recv, counts, displs)
}

// Iallgatherv starts an Allgatherv (MPI_Iallgatherv).
func Iallgatherv[T any](c *Comm, send, recv []T, counts []int, displs ...[]int) (Request, error) {
	x, err := c.plan(sign[T](callAllgatherv, 0, opNone, total(counts)), nil)
	if err != nil {
		return Request{}, err
	}
	return x.launch(allgatherv(x, send, recv, counts, displs))
}

// total adds up counts.
func total(counts []int) (sum int) {
	for _, n := range counts {
		sum += n
	}
	return sum
}

func allgatherv[T any](x *coll, send, recv []T, counts []int, displs [][]int) error {
	at, err := x.optional(displs, 0, 1)
	if err != nil {
		return err
	}
	parts, err := x.partsOf("recv", counts, at, sizeOf[T](), len(recv))
	if err != nil {
		return err
	}
	b := asBytes(recv)
	if send != nil {
		if err := x.checkLen("send", len(send), counts[x.rank]); err != nil {
			return err
		}
		x.copy(parts.part(b, x.rank), asBytes(send))
	}
	return x.allgather(b, parts)
}

// allgather selects an algorithm for parts of any length.
func (x *coll) allgather(b []byte, parts layout) error {
	switch x.chooseFlat(allgatherRules, len(b)) {
	case algShared:
		return x.allgatherShared(b, parts)
	case algTogether:
		return x.allgatherTogether(b, parts)
	}
	return x.allgatherRing(b, parts)
}

// allgatherRing passes each part once around the ring.
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

// allgatherTogether sends this rank's part to all others at once.
func (x *coll) allgatherTogether(b []byte, parts layout) error {
	return x.together(&parted{buf: b, parts: parts}, &parted{buf: parts.part(b, x.rank), same: true})
}

// allgatherDoubling is recursive doubling, for a number of ranks that is a power of two. In round k each
// rank exchanges the parts of its block of k ranks for those of the neighbouring block. All parts
// have the same length.
func (x *coll) allgatherDoubling(b []byte) error {
	block := len(b) / x.size
	for k := 1; k < x.size; k <<= 1 {
		mine, theirs := x.rank&^(k-1), (x.rank^k)&^(k-1)
		if err := x.swap(b[mine*block:(mine+k)*block], x.rank^k, b[theirs*block:(theirs+k)*block], x.rank^k); err != nil {
			return err
		}
	}
	return nil
}

// allgatherBruck takes ceil(log2) rounds for any number of ranks. In round k each rank has the
// parts of the 2^k ranks from itself on, and receives as many more from the rank 2^k after it.
func (x *coll) allgatherBruck(b []byte) error {
	block := len(b) / x.size
	tmp := x.scratchBytes(len(b))
	x.copy(tmp, b[block*x.rank:block*(x.rank+1)])
	for k := 1; k < x.size; k <<= 1 {
		n := min(k, x.size-k)
		dst, src := around(x.rank-k, x.size), around(x.rank+k, x.size)
		if err := x.swap(tmp[:n*block], dst, tmp[k*block:(k+n)*block], src); err != nil {
			return err
		}
	}
	n := x.copy(b[block*x.rank:], tmp)
	x.copy(b, tmp[n:])
	return nil
}
