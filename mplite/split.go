package mplite

import (
	"cmp"
	"context"
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
	return newComm(c.w, group, context), nil
}

// Dup makes a communicator of the same ranks whose messages never mix with
// those of c (MPI_Comm_dup). It is collective.
func (c *Comm) Dup(ctx context.Context) (*Comm, error) {
	context, err := c.newContext(ctx)
	if err != nil {
		return nil, err
	}
	return newComm(c.w, c.group, context), nil
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

const maxContext = 1 << 31
