package mplite

import "context"

// Scatter gives each rank its part of send at root, in rank order (MPI_Scatter). All parts have the
// same length as recv, and send is Size times as long. Other ranks ignore send. At root, a nil recv
// means that its part stays in place in send (MPI_IN_PLACE).
func Scatter[T any](ctx context.Context, c *Comm, send, recv []T, root int) error {
	x, err := c.begin(ctx, sign[T](callScatter, root, opNone, rootLen(c, recv, send, root)))
	if err != nil {
		return err
	}
	return scatter(&x, send, recv, root)
}

// Iscatter starts a Scatter (MPI_Iscatter).
func Iscatter[T any](c *Comm, send, recv []T, root int) (Request, error) {
	x, err := c.plan(sign[T](callScatter, root, opNone, rootLen(c, recv, send, root)), nil)
	if err != nil {
		return Request{}, err
	}
	return x.launch(scatter(x, send, recv, root))
}

func scatter[T any](x *coll, send, recv []T, root int) error {
	if err := x.checkRoot(root); err != nil {
		return err
	}
	if x.rank == root {
		n := partLen(x.c, recv, send)
		if err := x.checkLen("send", len(send), x.size*n); err != nil {
			return err
		}
		if recv == nil {
			recv = send[n*root : n*(root+1)]
		}
	}
	return x.scatter(asBytes(send), asBytes(recv), root)
}

// scatter selects the algorithm.
func (x *coll) scatter(send, recv []byte, root int) error {
	switch x.choose(gatherRules, len(recv), 0, true) {
	case algShared:
		return x.scatterShared(send, recv, root)
	case algHosts:
		return x.scatterHosts(send, recv, root)
	case algBinomial:
		return x.scatterTree(send, recv, root)
	}
	return x.scatterDirect(send, recv, layout{block: len(recv)}, root)
}

// Scatterv gives each rank its part of send at root: counts[r] elements to rank r (MPI_Scatterv).
// In send the parts are packed in rank order. With the optional displs, the part of rank r begins
// at element displs[0][r]. Other ranks ignore send, counts and displs. At root, a nil recv means
// that its part stays in place in send (MPI_IN_PLACE).
func Scatterv[T any](ctx context.Context, c *Comm, send []T, counts []int, recv []T, root int, displs ...[]int) error {
	x, err := c.begin(ctx, sign[T](callScatterv, root, opNone, 0))
	if err != nil {
		return err
	}
	return scatterv(&x, send, counts, recv, root, displs)
}

// Iscatterv starts a Scatterv (MPI_Iscatterv).
func Iscatterv[T any](c *Comm, send []T, counts []int, recv []T, root int, displs ...[]int) (Request, error) {
	x, err := c.plan(sign[T](callScatterv, root, opNone, 0), nil)
	if err != nil {
		return Request{}, err
	}
	return x.launch(scatterv(x, send, counts, recv, root, displs))
}

func scatterv[T any](x *coll, send []T, counts []int, recv []T, root int, displs [][]int) error {
	if err := x.checkRoot(root); err != nil {
		return err
	}
	if x.rank != root {
		if x.nearby() {
			return x.fetchPart(asBytes(recv), root)
		}
		return x.recv(asBytes(recv), root)
	}
	parts, mine, err := rootParts(x, "send", "recv", send, recv, counts, displs)
	if err != nil {
		return err
	}
	if x.nearby() {
		return x.offerParts(asBytes(send), mine, parts)
	}
	return x.scatterDirect(asBytes(send), mine, parts, root)
}

// scatterDirect sends each rank its part directly.
func (x *coll) scatterDirect(send, recv []byte, parts layout, root int) error {
	if x.rank != root {
		return x.recv(recv, root)
	}
	x.copy(recv, parts.part(send, root))
	return x.together(nil, &parted{buf: send, parts: parts})
}

// scatterTree is the reverse of gatherTree.
func (x *coll) scatterTree(send, recv []byte, root int) error {
	block := len(recv)
	me := around(x.rank-root, x.size)
	tmp := x.scratchBytes(block * x.size)
	k := ceilPow2(x.size)
	if me == 0 {
		n := x.copy(tmp, send[block*root:])
		x.copy(tmp[n:], send[:block*root])
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
	x.copy(recv, tmp)
	return nil
}
