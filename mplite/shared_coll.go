package mplite

// The collectives in shared memory: see shared.go. Reductions combine vectors in the same order as the algorithms
// that exchange messages, and so give the same bits.

func (x *coll) barrierShared() error {
	if err := x.deposit(nil); err != nil {
		return err
	}
	if err := x.reach(meetAll); err != nil {
		return err
	}
	return x.leave()
}

// deposit puts b into this rank's slot and posts it.
func (x *coll) deposit(b []byte) error {
	if err := x.reach(meetRoom); err != nil {
		return err
	}
	x.copy(x.slot(x.rank, len(b)), b)
	return x.post()
}

// depositAt is deposit at root. Other ranks post nothing but their signature.
func (x *coll) depositAt(root int, b []byte) error {
	if x.rank != root {
		b = nil
	}
	return x.deposit(b)
}

// bcastShared has all ranks copy the message from root's slot.
func (x *coll) bcastShared(b []byte, root int) error {
	if err := x.depositAt(root, b); err != nil {
		return err
	}
	if x.rank != root {
		if err := x.reach(root); err != nil {
			return err
		}
		x.copy(b, x.slot(root, len(b)))
	}
	return x.leave()
}

// gatherShared has root copy each rank's part.
func (x *coll) gatherShared(send, recv []byte, root int) error {
	if err := x.deposit(send); err != nil {
		return err
	}
	if x.rank == root {
		block := len(send)
		for k := range x.size {
			r := around(root+k, x.size)
			if err := x.reach(r); err != nil {
				return err
			}
			x.copy(recv[r*block:], x.slot(r, block))
		}
	}
	return x.leave()
}

// scatterShared has each rank copy its part from root's slot.
func (x *coll) scatterShared(send, recv []byte, root int) error {
	block := len(recv)
	if err := x.depositAt(root, send); err != nil {
		return err
	}
	if err := x.reach(root); err != nil {
		return err
	}
	x.copy(recv, x.slot(root, x.size*block)[x.rank*block:])
	return x.leave()
}

// allgatherShared has each rank copy the parts of all others. b holds this rank's part at its place.
func (x *coll) allgatherShared(b []byte, parts layout) error {
	if err := x.deposit(parts.part(b, x.rank)); err != nil {
		return err
	}
	for k := 1; k < x.size; k++ {
		r := around(x.rank+k, x.size)
		if err := x.reach(r); err != nil {
			return err
		}
		part := parts.part(b, r)
		x.copy(part, x.slot(r, len(part)))
	}
	return x.leave()
}

// alltoallShared has each rank copy its part from the slots of all ranks.
func (x *coll) alltoallShared(send, recv []byte, block int) error {
	if err := x.deposit(send); err != nil {
		return err
	}
	for k := range x.size {
		r := around(x.rank+k, x.size)
		if err := x.reach(r); err != nil {
			return err
		}
		x.copy(recv[r*block:(r+1)*block], x.slot(r, x.size*block)[x.rank*block:])
	}
	return x.leave()
}

// givePart is Gatherv at a rank that is not root.
func (x *coll) givePart(send []byte, root int) error {
	if err := x.reach(meetRoom); err != nil {
		return err
	}
	x.putPart(0, send)
	if err := x.post(); err != nil {
		return err
	}
	if len(send) > partMost {
		if err := x.send(send, root); err != nil {
			return err
		}
	}
	return x.leave()
}

// takeParts is Gatherv at root.
func (x *coll) takeParts(mine, recv []byte, parts layout) error {
	if err := x.deposit(nil); err != nil {
		return err
	}
	x.copy(parts.part(recv, x.rank), mine)
	for k := 1; k < x.size; k++ {
		r := around(x.rank+k, x.size)
		part := parts.part(recv, r)
		if err := x.reachPart(r, 0, len(part)); err != nil {
			return err
		}
		x.takePart(part, r, 0)
	}
	if err := x.together(&parted{buf: recv, parts: parts, long: true}, nil); err != nil {
		return err
	}
	return x.leave()
}

// offerParts is Scatterv at root.
func (x *coll) offerParts(send, mine []byte, parts layout) error {
	if err := x.putParts(send, parts); err != nil {
		return err
	}
	x.copy(mine, parts.part(send, x.rank))
	if err := x.together(nil, &parted{buf: send, parts: parts, long: true}); err != nil {
		return err
	}
	return x.leave()
}

// putParts puts the parts for all other ranks into this rank's slot and posts it.
func (x *coll) putParts(send []byte, parts layout) error {
	if err := x.reach(meetRoom); err != nil {
		return err
	}
	for r := range x.size {
		if r != x.rank {
			x.putPart(r, parts.part(send, r))
		}
	}
	return x.post()
}

// fetchPart is Scatterv at a rank that is not root.
func (x *coll) fetchPart(recv []byte, root int) error {
	if err := x.deposit(nil); err != nil {
		return err
	}
	if err := x.reachPart(root, x.rank, len(recv)); err != nil {
		return err
	}
	x.takePart(recv, root, x.rank)
	if len(recv) > partMost {
		if err := x.recv(recv, root); err != nil {
			return err
		}
	}
	return x.leave()
}

// swapParts is Alltoallv.
func (x *coll) swapParts(send, recv []byte, out, in layout) error {
	if err := x.putParts(send, out); err != nil {
		return err
	}
	x.copy(in.part(recv, x.rank), out.part(send, x.rank))
	for k := 1; k < x.size; k++ {
		r := around(x.rank+k, x.size)
		part := in.part(recv, r)
		if err := x.reachPart(r, x.rank, len(part)); err != nil {
			return err
		}
		x.takePart(part, r, x.rank)
	}
	if err := x.together(&parted{buf: recv, parts: in, long: true}, &parted{buf: send, parts: out, long: true}); err != nil {
		return err
	}
	return x.leave()
}

// pool reduces the vectors in the slots of all ranks, or a part of these vectors.
type pool[T any] struct {
	x     *coll
	op    Op[T]
	n     int  // elements of a vector
	part  span // of it
	extra int  // the first pairs of ranks that count as one: see fold
	top   int  // the rank that counts as rank 0
}

// of returns the part of a rank's vector.
func (p *pool[T]) of(rank int) []T {
	rank = around(rank+p.top, p.x.size)
	return asElements[T](p.x.slot(rank, p.n*sizeOf[T]()))[p.part.lo:p.part.hi]
}

// folded returns the vector of rank i after fold. It may use dst.
func (p *pool[T]) folded(dst []T, i int) []T {
	if i >= p.extra {
		return p.of(i + p.extra)
	}
	apply(p.x, p.op, dst, p.of(2*i), p.of(2*i+1))
	return dst
}

// split returns the first vector in spare, and the rest.
func (p *pool[T]) split(spare []T) (v, rest []T) {
	n := p.part.hi - p.part.lo
	return spare[:n], spare[n:]
}

// doubling reduces as recursive doubling does: the vectors of n ranks from lo on, where n is a power of two.
// The result may be in dst.
func (p *pool[T]) doubling(dst, spare []T, lo, n int) []T {
	if n == 1 {
		return p.folded(dst, lo)
	}
	left := p.doubling(dst, spare, lo, n/2)
	v, rest := p.split(spare)
	right := p.doubling(v, rest, lo+n/2, n/2)
	apply(p.x, p.op, dst, left, right)
	return dst
}

// binomial reduces as a binomial tree does: the vectors of up to n ranks from lo on.
func (p *pool[T]) binomial(dst, spare []T, lo, n int) []T {
	left := p.of(lo)
	v, rest := p.split(spare)
	for k := 1; k < n && lo+k < p.x.size; k <<= 1 {
		apply(p.x, p.op, dst, left, p.binomial(v, rest, lo+k, k))
		left = dst
	}
	return left
}

// halving reduces as recursive halving does: the result of rank me in the rounds with partners at a distance of
// at least k.
func (p *pool[T]) halving(dst, spare []T, me, k int) []T {
	if k == floorPow2(p.x.size) {
		return p.folded(dst, me)
	}
	left := p.halving(dst, spare, me, 2*k)
	v, rest := p.split(spare)
	right := p.halving(v, rest, me^k, 2*k)
	apply(p.x, p.op, dst, left, right)
	return dst
}

// poolDepth is the maximum number of vectors that a reduction holds at once, for meetRanks ranks.
const poolDepth = 6

// reduceShared has root reduce the vectors of all ranks.
func reduceShared[T any](x *coll, send, recv []T, op Op[T], root int) error {
	if err := x.deposit(asBytes(send)); err != nil {
		return err
	}
	if x.rank == root {
		if err := x.reach(meetAll); err != nil {
			return err
		}
		p := pool[T]{x: x, op: op, n: len(send), part: span{0, len(send)}}
		if op.commutative {
			p.top = root
		}
		p.binomial(recv, scratch[T](x, poolDepth*len(send)), 0, x.size)
	}
	return x.leave()
}

// allreduceShared has each rank reduce the vectors of all ranks.
func allreduceShared[T any](x *coll, v []T, op Op[T]) error {
	if err := x.deposit(asBytes(v)); err != nil {
		return err
	}
	if err := x.reach(meetAll); err != nil {
		return err
	}
	p := pool[T]{x: x, op: op, n: len(v), part: span{0, len(v)}, extra: x.size - floorPow2(x.size)}
	p.doubling(v, scratch[T](x, poolDepth*len(v)), 0, floorPow2(x.size))
	return x.leave()
}

// reduceScatterShared has each rank reduce its part of the vectors of all ranks.
func reduceScatterShared[T any](x *coll, send, recv []T, parts layout, op Op[T]) error {
	if err := x.deposit(asBytes(send)); err != nil {
		return err
	}
	if err := x.reach(meetAll); err != nil {
		return err
	}
	p := pool[T]{x: x, op: op, n: len(send), part: parts.of(x.rank), extra: x.size - floorPow2(x.size)}
	me := x.rank - p.extra
	if x.rank < 2*p.extra {
		me = x.rank / 2
	}
	p.halving(recv, scratch[T](x, poolDepth*len(recv)), me, 1)
	return x.leave()
}

// prefixesShared is prefixes with the vectors of lower ranks. It calls lower with the reduction of each block of
// them, from the nearest on.
func prefixesShared[T any](x *coll, v []T, op Op[T], lower func(in []T)) error {
	if err := x.deposit(asBytes(v)); err != nil {
		return err
	}
	for r := range x.rank {
		if err := x.reach(r); err != nil {
			return err
		}
	}
	p := pool[T]{x: x, op: op, n: len(v), part: span{0, len(v)}}
	for k := 1; k < x.size; k <<= 1 {
		if x.rank&k != 0 {
			dst, spare := p.split(scratch[T](x, poolDepth*len(v)))
			lower(p.doubling(dst, spare, (x.rank^k)&^(k-1), k))
		}
	}
	return x.leave()
}
