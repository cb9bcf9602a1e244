package mplite

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/vipl"
)

// Wildcards of receives and probes.
const (
	AnySource = -1
	AnyTag    = -1
)

// None is the null process (MPI_PROC_NULL), the rank beyond the edge of a grid. A send to it and a
// receive from it complete at once. The receive leaves its buffer unchanged and returns a Status
// with Source None, Tag AnyTag and Count 0. A probe always finds such a message.
const None = -2

// MaxTag is the largest tag.
const MaxTag = math.MaxInt32

// Comm is a communicator (MPI_Comm): a group of ranks with messages of its own. It may be shared
// between goroutines. But only one goroutine at a time may call a communicator's collectives, and
// all ranks must call them in the same order, as in MPI.
type Comm struct {
	w       *world
	rank    int
	group   []int32 // rank in the first communicator, by rank here
	index   []int32 // rank here, by rank in the first communicator; -1 if not in it
	ranks   int     // length of group; 0 once freed
	context uint32  // even; odd is the same communicator's collectives
	log     *callLog
	outer   call // the call that the collectives are part of, or 0
	acked   int  // number of the job's deaths that the program has acknowledged on this communicator
	scratch []uint64
	partial []uint64 // memory of two-level algorithms, which use scratch on both levels
	places  *placement
	reqs    []*request // of coll.together
	meet    *meeting   // the memory that its ranks share, or nil
}

// worldContext is the number of the communicator that Init returns.
const worldContext = 0

// newComm makes a communicator. The mutex is held.
func newComm(w *world, group []int32, context uint32) *Comm {
	c := &Comm{w: w, group: group, context: context, index: inverse(group, w.size), ranks: len(group), log: &callLog{}, places: &placement{}}
	c.rank = int(c.index[w.rank])
	if w.comms == nil {
		w.comms = make(map[uint32]*Comm)
	}
	w.comms[context] = c
	c.hear()
	return c
}

// inverse returns the rank in a group of each of size ranks, -1 of a rank that is not in it.
func inverse(group []int32, size int) []int32 {
	if all := identity(size); len(group) == size && &group[0] == &all[0] {
		return group
	}
	index := make([]int32, size)
	for i := range index {
		index[i] = -1
	}
	for i, g := range group {
		index[g] = int32(i)
	}
	return index
}

// ascending returns the numbers from 0 to job.MaxRanks-1.
var ascending = sync.OnceValue(func() []int32 {
	all := make([]int32, job.MaxRanks)
	for i := range all {
		all[i] = int32(i)
	}
	return all
})

// identity returns the numbers from 0 to n-1. They are shared, so nobody may change them.
func identity(n int) []int32 { return ascending()[:n:n] }

// hear handles the messages and reports for c that arrived before c was created.
func (c *Comm) hear() {
	w := c.w
	for n := w.match.all.head; n != nil; n = n.next {
		if in := n.of; in.env.context == c.context|1 && in.ahead == nil {
			c.log.ahead.push(&in.inLog, in)
			in.ahead = &c.log.ahead
		}
	}
	w.told = slices.DeleteFunc(w.told, func(t toldOf) bool {
		if t.context == c.context {
			c.apply(t.v)
		}
		return t.context == c.context
	})
}

// Rank returns the caller's rank in c (MPI_Comm_rank).
func (c *Comm) Rank() int { return c.rank }

// Size returns the number of ranks in c (MPI_Comm_size).
func (c *Comm) Size() int { return len(c.group) }

// JobRank converts a rank of c to a rank of the job's first communicator. Error messages use the
// latter.
func (c *Comm) JobRank(rank int) int { return int(c.group[rank]) }

// Job returns the job's name.
func (c *Comm) Job() string { return c.w.cfg.Job }

// NIC returns the NIC that carries the rank's messages, for its counters. It is nil for a job of
// one rank without a NIC.
func (c *Comm) NIC() *vipl.NIC { return c.w.nic }

// started is when the process began, the zero of Wtime.
var started = time.Now()

// Wtime returns the time in seconds since a fixed moment in the past (MPI_Wtime), on the NIC's
// clock, or on the process's clock if there is no NIC.
func (c *Comm) Wtime() float64 {
	if c.w.nic == nil {
		return time.Since(started).Seconds()
	}
	return float64(c.w.nic.Now()) / 1e9
}

// Free releases c (MPI_Comm_free). Later calls on c return ErrFinalized. The communicators that
// Init and Self return cannot be freed: the error is ErrComm. Finalize releases them.
func (c *Comm) Free() error {
	w := c.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if c.ranks == 0 {
		return ErrFinalized
	}
	switch c.context {
	case worldContext:
		return opError("free", ErrComm, "it is the job's first communicator, which Init returned: Finalize releases it")
	case maxContext:
		return opError("free", ErrComm, "it is the communicator that Self returns: Finalize releases it")
	}
	c.ranks = 0
	delete(w.comms, c.context)
	return nil
}

// String returns a human-readable description of c.
func (c *Comm) String() string {
	return fmt.Sprintf("rank %d of %d in job %q", c.rank, len(c.group), c.w.cfg.Job)
}

// peer returns another rank of c; nil if that is this rank.
func (c *Comm) peer(rank int) *peer {
	if rank == c.rank {
		return nil
	}
	return c.w.peer(int(c.group[rank]))
}

// usable returns the reason why c cannot be used, or nil.
func (c *Comm) usable() error {
	if c.w.fatal != nil {
		return c.w.fatal
	}
	if c.ranks == 0 {
		return ErrFinalized
	}
	return nil
}

// badPeer returns an error if a rank or tag is invalid. None is a valid rank.
func (c *Comm) badPeer(op string, rank, tag int) error {
	if err := c.usable(); err != nil {
		return err
	}
	if rank == None && uint(tag) <= MaxTag {
		return nil
	}
	if rank != None && (rank < 0 || rank >= len(c.group)) {
		return opError(op, ErrRank, "rank %d is not in 0..%d", rank, len(c.group)-1)
	}
	return opError(op, ErrTag, "tag %d is not in 0..%d", tag, MaxTag)
}

// Undefined is the color of ranks that get no communicator from Split (MPI_UNDEFINED).
const Undefined = -1

// Split creates a communicator of all ranks that pass the same color, ordered by key and then by
// their rank in c (MPI_Comm_split). It is collective. A rank that passes color Undefined gets
// nil. Other negative colors are invalid.
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

// Dup creates a communicator of the same ranks, whose messages are separate from those of c
// (MPI_Comm_dup). It is collective.
func (c *Comm) Dup(ctx context.Context) (*Comm, error) {
	context, err := c.within(callDup).newContext(ctx)
	if err != nil {
		return nil, err
	}
	return c.w.register(c.group, context), nil
}

// CommCreate creates a communicator of the ranks of g, in the order of g (MPI_Comm_create). It is
// collective over c. Every rank of g passes the same group. A rank that is not in the group that it
// passes gets nil. The group may be empty. One call can create several communicators for disjoint
// groups.
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

// claim describes to the other ranks the group that a rank has passed to CommCreate. Equal hashes
// mean equal groups.
type claim [3]int64

const (
	claimHash   = iota
	claimSize   // the group's size; -1 if the group has a rank that is not in the communicator
	claimMember // 1 if the claiming rank is in the group, else 0
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

// claimed returns an error, the same on every rank, unless all members of each group have
// passed that group.
func claimed(all []claim) error {
	members := map[int64]int64{}
	for _, c := range all {
		members[c[claimHash]] += c[claimMember]
	}
	for rank, c := range all {
		switch {
		case c[claimSize] < 0:
			return opError("create communicator", ErrArgument, "rank %d passed a group with ranks that are not in the communicator", rank)
		case c[claimSize] != members[c[claimHash]]:
			return opError("create communicator", ErrArgument, "rank %d passed a group of %d ranks, but only %d of these ranks passed the same group",
				rank, c[claimSize], members[c[claimHash]])
		}
	}
	return nil
}

// Self returns the communicator of this rank alone (MPI_COMM_SELF). Every call returns the same
// one. Its messages go from the rank to itself. Finalize releases it.
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

// newContext agrees with the other ranks of c on a context that none of them uses: the
// largest context that any of them would take next. If a rank has used this context
// meanwhile, for another communicator in another goroutine, the ranks try again.
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

// maxContext is greater than every communicator number that ranks agree on. It is the
// number of Self, whose messages no other rank sees.
const maxContext = 1 << 31
