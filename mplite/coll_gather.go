package mplite

import "context"

// Gather collects the parts send of all ranks, in rank order, in recv at root (MPI_Gather). All
// parts have the same length, and recv is Size times as long. Other ranks ignore recv. At root, a
// nil send means that its part is already in place in recv (MPI_IN_PLACE).
func Gather[T any](ctx context.Context, c *Comm, send, recv []T, root int) error {
	x, err := c.begin(ctx, sign[T](callGather, root, opNone, rootLen(c, send, recv, root)))
	if err != nil {
		return err
	}
	return gather(&x, send, recv, root)
}

// Igather starts a Gather (MPI_Igather).
func Igather[T any](c *Comm, send, recv []T, root int) (Request, error) {
	x, err := c.plan(sign[T](callGather, root, opNone, rootLen(c, send, recv, root)), nil)
	if err != nil {
		return Request{}, err
	}
	return x.launch(gather(x, send, recv, root))
}

// rootLen is partLen for a buffer of all parts that exists only at root.
func rootLen[T any](c *Comm, part, all []T, root int) int {
	if c.rank == root {
		return partLen(c, part, all)
	}
	return len(part)
}

func gather[T any](x *coll, send, recv []T, root int) error {
	if err := x.checkRoot(root); err != nil {
		return err
	}
	if x.rank == root {
		n := partLen(x.c, send, recv)
		if err := x.checkLen("recv", len(recv), x.size*n); err != nil {
			return err
		}
		if send == nil {
			send = recv[n*root : n*(root+1)]
		}
	}
	return x.gather(asBytes(send), asBytes(recv), root)
}

// gather selects the algorithm.
func (x *coll) gather(send, recv []byte, root int) error {
	switch x.choose(gatherRules, len(send), 0, true) {
	case algShared:
		return x.gatherShared(send, recv, root)
	case algHosts:
		return x.gatherHosts(send, recv, root)
	case algBinomial:
		return x.gatherTree(send, recv, root)
	}
	return x.gatherDirect(send, recv, layout{block: len(send)}, root)
}

// Gatherv collects parts of any length at root (MPI_Gatherv), where counts[r] is the number of
// elements from rank r. In recv the parts are packed in rank order. With the optional displs, the
// part of rank r begins at element displs[0][r]. Other ranks ignore recv, counts and displs. At
// root, a nil send means that its part is already in place in recv (MPI_IN_PLACE).
func Gatherv[T any](ctx context.Context, c *Comm, send, recv []T, counts []int, root int, displs ...[]int) error {
	x, err := c.begin(ctx, sign[T](callGatherv, root, opNone, 0))
	if err != nil {
		return err
	}
	return gatherv(&x, send, recv, counts, root, displs)
}

// Igatherv starts a Gatherv (MPI_Igatherv).
func Igatherv[T any](c *Comm, send, recv []T, counts []int, root int, displs ...[]int) (Request, error) {
	x, err := c.plan(sign[T](callGatherv, root, opNone, 0), nil)
	if err != nil {
		return Request{}, err
	}
	return x.launch(gatherv(x, send, recv, counts, root, displs))
}

func gatherv[T any](x *coll, send, recv []T, counts []int, root int, displs [][]int) error {
	if err := x.checkRoot(root); err != nil {
		return err
	}
	if x.rank != root {
		if x.nearby() {
			return x.givePart(asBytes(send), root)
		}
		return x.send(asBytes(send), root)
	}
	parts, mine, err := rootParts(x, "recv", "send", recv, send, counts, displs)
	if err != nil {
		return err
	}
	if x.nearby() {
		return x.takeParts(mine, asBytes(recv), parts)
	}
	return x.gatherDirect(mine, asBytes(recv), parts, root)
}

// rootParts checks the root's arguments of Gatherv or Scatterv. It returns the layout of the buffer
// of all parts, and the root's own part. If the caller passes no separate part, that is the part in
// this buffer.
func rootParts[T any](x *coll, nameAll, namePart string, all, part []T, counts []int, displs [][]int) (layout, []byte, error) {
	at, err := x.optional(displs, 0, 1)
	if err != nil {
		return layout{}, nil, err
	}
	parts, err := x.partsOf(nameAll, counts, at, sizeOf[T](), len(all))
	if err != nil {
		return layout{}, nil, err
	}
	if part == nil {
		return parts, parts.part(asBytes(all), x.rank), nil
	}
	return parts, asBytes(part), x.checkLen(namePart, len(part), counts[x.rank])
}

// gatherDirect receives each rank's part directly at its place.
func (x *coll) gatherDirect(send, recv []byte, parts layout, root int) error {
	if x.rank != root {
		return x.send(send, root)
	}
	x.copy(parts.part(recv, root), send)
	return x.together(&parted{buf: recv, parts: parts}, nil)
}

// gatherTree collects parts in a binomial tree of ranks relative to root. Each rank sends its own
// and its subtree's parts, which are adjacent, in one message.
func (x *coll) gatherTree(send, recv []byte, root int) error {
	block := len(send)
	me := around(x.rank-root, x.size)
	tmp := x.scratchBytes(block * min(floorPow2(x.size)*2, x.size))
	x.copy(tmp, send)
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
	n := x.copy(recv[block*root:], tmp[:block*(x.size-root)])
	x.copy(recv, tmp[n:block*x.size])
	return nil
}
