package mplite

import "slices"

// Algorithms in two levels, for communicators with several hosts, of which some have several ranks. One
// rank of each host, the leader, sends to other hosts. The other ranks exchange messages within their host only.
// At each level the tables select an algorithm as for any communicator.

// placement describes how the ranks of a communicator are placed on hosts. Copies of the communicator
// share it. The slices for one call are scratch memory.
type placement struct {
	known  bool
	shared bool      // the communicator has several hosts, and fewer hosts than ranks
	blocks bool      // the ranks of each host follow one another
	host   []int32   // by rank: the number of its host. Hosts are in the order of their lowest ranks
	ranks  [][]int32 // by host: its ranks, ascending

	leaders      []int32 // the leaders in one call, by host
	starts, ends []int   // where the parts of each host start and end in one call
}

// placed returns the placement of the communicator's ranks. If no two ranks share a host, or all
// ranks share one host, shared is false and the other fields are not set.
func (c *Comm) placed() *placement {
	p := c.places
	if p.known {
		return p
	}
	p.known = true
	number := map[int32]int32{}
	for _, g := range c.group {
		if h := c.w.hosts[g]; !has(number, h) {
			number[h] = int32(len(number))
		}
	}
	hosts := len(number)
	if p.shared = hosts > 1 && hosts < len(c.group); !p.shared {
		return p
	}
	p.host, p.ranks, p.blocks = make([]int32, len(c.group)), make([][]int32, hosts), true
	p.leaders, p.starts, p.ends = make([]int32, hosts), make([]int, hosts), make([]int, hosts)
	for rank, g := range c.group {
		h := number[c.w.hosts[g]]
		p.host[rank], p.ranks[h] = h, append(p.ranks[h], int32(rank))
		p.blocks = p.blocks && (rank == 0 || p.host[rank-1] <= h)
	}
	return p
}

func has[K comparable, V any](m map[K]V, k K) bool {
	_, ok := m[k]
	return ok
}

// shares reports whether two levels are possible, and if mixed, whether the ranks of some host do not follow one
// another. Operands of a reduction that is not commutative keep the order of the ranks only if they do.
func (x *coll) shares(commutes, mixed bool) bool {
	if x.among != nil {
		return false
	}
	p := x.c.placed()
	return p.shared && (commutes || p.blocks) && !(mixed && p.blocks)
}

// with returns the part of the call that runs among some of its ranks, which include this
// rank.
func (x *coll) with(ranks []int32) coll {
	part := *x
	part.among, part.size = ranks, len(ranks)
	part.rank = slices.Index(ranks, int32(x.rank))
	return part
}

// at returns the rank in the communicator of a rank of the call.
func (x *coll) at(rank int) int {
	if x.among == nil {
		return rank
	}
	return int(x.among[rank])
}

// levels holds the two levels of a call, as one rank sees them.
type levels struct {
	near coll // the part of the call among the ranks of this host
	top  int  // the leader's rank in near
	far  coll // the part of the call among the leaders; its rank is -1 if this rank is not a leader
	root int  // the root's rank in far
}

// leads reports whether this rank is its host's leader.
func (l *levels) leads() bool { return l.far.rank >= 0 }

// levels returns the levels of a call in which root is the leader of its host. The leaders of other hosts are their lowest
// ranks.
func (x *coll) levels(root int) levels {
	p := x.c.placed()
	for h, ranks := range p.ranks {
		p.leaders[h] = ranks[0]
	}
	p.leaders[p.host[root]] = int32(root)
	mine := p.host[x.rank]
	l := levels{near: x.with(p.ranks[mine]), far: x.with(p.leaders), root: int(p.host[root])}
	l.top = slices.Index(p.ranks[mine], p.leaders[mine])
	return l
}

// barrierHosts takes three steps: the ranks of each host notify their leader, the leaders notify each other, and each
// leader notifies the ranks of its host.
func (x *coll) barrierHosts() error {
	l := x.levels(0)
	if err := l.near.gatherTree(nil, nil, 0); err != nil {
		return err
	}
	if l.leads() {
		if err := l.far.barrier(); err != nil {
			return err
		}
	}
	return l.near.bcastTree(nil, 0)
}

// bcastHosts sends to the leaders, and they to the ranks of their hosts.
func (x *coll) bcastHosts(b []byte, root, elem int) error {
	l := x.levels(root)
	if l.leads() {
		if err := l.far.bcast(b, l.root, elem); err != nil {
			return err
		}
	}
	return l.near.bcast(b, l.top, elem)
}

// reduceHosts reduces within each host to the leader, and then among the leaders.
func reduceHosts[T any](x *coll, send, recv []T, op Op[T], root int) error {
	l := x.levels(root)
	if !l.leads() {
		return reduce(&l.near, send, nil, op, l.top)
	}
	part := recv
	if x.rank != root {
		part = asNumbers[T](x.memory(&x.c.partial, len(send)*sizeOf[T]()))[:len(send)]
	}
	if err := reduce(&l.near, send, part, op, l.top); err != nil {
		return err
	}
	return reduce(&l.far, part, recv, op, l.root)
}

// allreduceHosts reduces within each host to the leader, then among the leaders on all of them, and sends the result
// to the ranks of each host.
func allreduceHosts[T any](x *coll, v []T, op Op[T]) error {
	l := x.levels(0)
	if err := reduce(&l.near, v, v, op, 0); err != nil {
		return err
	}
	if l.leads() {
		if err := allreduce(&l.far, v, op); err != nil {
			return err
		}
	}
	return l.near.bcast(asBytes(v), 0, sizeOf[T]())
}

// partsByHost returns the layout of the parts of all ranks, of block bytes each, with those of one host
// next to each other.
func (p *placement) partsByHost(block int) layout {
	at := 0
	for h, ranks := range p.ranks {
		p.starts[h] = at
		at += block * len(ranks)
		p.ends[h] = at
	}
	return layout{starts: p.starts, ends: p.ends}
}

// reorder copies parts of block bytes between the order of the ranks and that of partsByHost.
func (x *coll) reorder(byRank, byHost []byte, block int, toRanks bool) {
	at := 0
	for _, ranks := range x.c.placed().ranks {
		for _, r := range ranks {
			in, out := byRank[int(r)*block:][:block], byHost[at:][:block]
			if toRanks {
				in, out = out, in
			}
			x.copy(out, in)
			at += block
		}
	}
}

// gatherHosts collects the parts of each host at its leader, and the parts of all hosts
// at root.
func (x *coll) gatherHosts(send, recv []byte, root int) error {
	l, p, block := x.levels(root), x.c.placed(), len(send)
	switch {
	case !l.leads():
		return l.near.gather(send, nil, l.top)
	case x.rank != root:
		mine := x.partial(block * l.near.size)
		if err := l.near.gather(send, mine, l.top); err != nil {
			return err
		}
		return l.far.send(mine, l.root)
	}
	all, parts := recv, p.partsByHost(block)
	if !p.blocks {
		all = x.partial(block * x.size)
	}
	if err := l.near.gather(send, parts.part(all, l.root), l.top); err != nil {
		return err
	}
	if err := l.far.together(&parted{buf: all, parts: parts}, nil); err != nil {
		return err
	}
	if !p.blocks {
		x.reorder(recv, all, block, true)
	}
	return nil
}

// scatterHosts is the reverse of gatherHosts.
func (x *coll) scatterHosts(send, recv []byte, root int) error {
	l, p, block := x.levels(root), x.c.placed(), len(recv)
	switch {
	case !l.leads():
		return l.near.scatter(nil, recv, l.top)
	case x.rank != root:
		mine := x.partial(block * l.near.size)
		if err := l.far.recv(mine, l.root); err != nil {
			return err
		}
		return l.near.scatter(mine, recv, l.top)
	}
	all, parts := send, p.partsByHost(block)
	if !p.blocks {
		all = x.partial(block * x.size)
		x.reorder(send, all, block, false)
	}
	if err := l.far.together(nil, &parted{buf: all, parts: parts}); err != nil {
		return err
	}
	return l.near.scatter(parts.part(all, l.root), recv, l.top)
}

// allgatherHosts collects the parts of each host at its leader, exchanges the collected parts among the
// leaders, and sends the result to the ranks of each host. b holds this rank's part at its place.
func (x *coll) allgatherHosts(b []byte) error {
	l, p, block := x.levels(0), x.c.placed(), len(b)/x.size
	own := b[x.rank*block:][:block]
	if !l.leads() {
		if err := l.near.gather(own, nil, 0); err != nil {
			return err
		}
		return l.near.bcast(b, 0, 1)
	}
	all, parts := b, p.partsByHost(block)
	if !p.blocks {
		all = x.partial(len(b))
	}
	if err := l.near.gather(own, parts.part(all, l.far.rank), 0); err != nil {
		return err
	}
	if err := l.far.allgather(all, parts); err != nil {
		return err
	}
	if !p.blocks {
		x.reorder(b, all, block, true)
	}
	return l.near.bcast(b, 0, 1)
}
