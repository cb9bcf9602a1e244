package mplite

import (
	"cmp"
	"context"
	"encoding/binary"
	"hash/fnv"
	"slices"
)

// Undefined is the color of ranks that get no communicator from Split
// (MPI_UNDEFINED).
const Undefined = -1

// Split makes a communicator of all ranks that give the same color, ordered by
// key and, where keys are equal, by their rank in c (MPI_Comm_split). It is
// collective. Color Undefined gives nil; other negative ones are invalid.
func (c *Comm) Split(ctx context.Context, color, key int) (*Comm, error) {
	if color < Undefined {
		return nil, opError("split", ErrArgument, "color %d is negative", color)
	}
	c = c.within(callSplit)
	all := make([]int64, 2*c.Size())
	if err := Allgather(ctx, c, []int64{int64(color), int64(key)}, all); err != nil {
		return nil, err
	}
	context, err := c.newContext(ctx)
	if err != nil || color == Undefined {
		return nil, err
	}
	var members []int
	for i := range c.group {
		if all[2*i] == int64(color) {
			members = append(members, i)
		}
	}
	slices.SortStableFunc(members, func(a, b int) int { return cmp.Compare(all[2*a+1], all[2*b+1]) })
	group := make([]int32, len(members))
	for i, m := range members {
		group[i] = c.group[m]
	}
	return c.w.register(group, context), nil
}

// Dup makes a communicator of the same ranks whose messages never mix with
// those of c (MPI_Comm_dup). It is collective.
func (c *Comm) Dup(ctx context.Context) (*Comm, error) {
	context, err := c.within(callDup).newContext(ctx)
	if err != nil {
		return nil, err
	}
	return c.w.register(c.group, context), nil
}

// CommCreate makes a communicator of the ranks of g, in the order of g
// (MPI_Comm_create). It is collective over c. Every rank of g gives the same
// group; ranks that are not in the group they give, which may be empty, get nil.
// So several communicators of different ranks can be made by one call.
func (c *Comm) CommCreate(ctx context.Context, g Group) (*Comm, error) {
	c = c.within(callCommCreate)
	mine, flat := c.claim(g), make([]int64, c.Size()*len(claim{}))
	if err := Allgather(ctx, c, mine[:], flat); err != nil {
		return nil, err
	}
	all := make([]claim, c.Size())
	for i := range all {
		all[i] = claim(flat[i*len(claim{}):])
	}
	if err := claimed(all); err != nil {
		return nil, err
	}
	context, err := c.newContext(ctx)
	if err != nil || mine[claimMember] == 0 {
		return nil, err
	}
	return c.w.register(g.members, context), nil
}

// claim is what a rank tells the others of the group that it has given to
// CommCreate. Equal hashes mean equal groups.
type claim [3]int64

const (
	claimHash   = iota
	claimSize   // -1 if a rank of it is not in the communicator
	claimMember // 1 if the rank is in it
)

func (c *Comm) claim(g Group) claim {
	h := fnv.New64a()
	mine := claim{claimSize: int64(g.Size())}
	for _, m := range g.members {
		var b [4]byte
		binary.LittleEndian.PutUint32(b[:], uint32(m))
		h.Write(b[:])
		if !c.contains(int(m)) {
			mine[claimSize] = -1
		}
		if int(m) == c.w.rank {
			mine[claimMember] = 1
		}
	}
	mine[claimHash] = int64(h.Sum64())
	return mine
}

// claimed returns an error, the same on every rank, unless all ranks of every
// group have given this group.
func claimed(all []claim) error {
	members := map[int64]int64{}
	for _, c := range all {
		members[c[claimHash]] += c[claimMember]
	}
	for rank, c := range all {
		switch {
		case c[claimSize] < 0:
			return opError("create communicator", ErrArgument, "rank %d gave a group with ranks that are not in the communicator", rank)
		case c[claimSize] != members[c[claimHash]]:
			return opError("create communicator", ErrArgument, "rank %d gave a group of %d ranks, of which %d gave the same: all have to",
				rank, c[claimSize], members[c[claimHash]])
		}
	}
	return nil
}

// Self returns the communicator of this rank alone (MPI_COMM_SELF), the same at
// every call. Its messages go from the rank to itself; Finalize releases it.
func (c *Comm) Self() *Comm {
	w := c.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.self == nil {
		w.self = newComm(w, []int32{int32(w.rank)}, maxContext)
	}
	return w.self
}

// register is newComm without the mutex.
func (w *world) register(group []int32, context uint32) *Comm {
	w.mu.Lock()
	defer w.mu.Unlock()
	return newComm(w, group, context)
}

// newContext agrees on a context that no rank of c uses: the largest that any
// of them would take next. If a rank has given it away meanwhile, for another
// communicator in another goroutine, they try again.
func (c *Comm) newContext(ctx context.Context) (uint32, error) {
	w := c.w
	for {
		w.mu.Lock()
		next := []uint32{w.context}
		w.mu.Unlock()
		if err := Allreduce(ctx, c, nil, next, Max[uint32]()); err != nil {
			return 0, err
		}
		if next[0] >= maxContext {
			return 0, opError("create communicator", ErrArgument, "%d communicators have been created, there are no more", maxContext/2)
		}
		free := []uint8{0}
		w.mu.Lock()
		if next[0] >= w.context {
			w.context = next[0] + 2
			free[0] = 1
		}
		w.mu.Unlock()
		if err := Allreduce(ctx, c, nil, free, Min[uint8]()); err != nil {
			return 0, err
		}
		if free[0] == 1 {
			return next[0], nil
		}
	}
}

// maxContext is beyond every communicator number that ranks agree on: it is that
// of Self, whose messages no other rank sees.
const maxContext = 1 << 31
