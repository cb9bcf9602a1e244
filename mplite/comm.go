package mplite

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/bobnet-go/bobnet/vipl"
)

// Wildcards of receives and probes.
const (
	AnySource = -1
	AnyTag    = -1
)

// None is the null process (MPI_PROC_NULL), the rank beyond the edge of a grid.
// A send to it ends at once and a receive from it too, with the Status that has
// Source None, Tag AnyTag and Count 0; its buffer stays as it is. A probe finds
// that message always.
const None = -2

// MaxTag is the largest tag.
const MaxTag = math.MaxInt32

// Comm is a communicator (MPI_Comm): a group of ranks with a message space of
// its own. It may be shared between goroutines, but a communicator's
// collectives must be called by one goroutine at a time and by all ranks in
// the same order, as in MPI.
type Comm struct {
	w       *world
	rank    int
	group   []int32 // rank in the first communicator, by rank here
	index   []int32 // rank here, by rank in the first communicator; -1 if not in it
	peers   []*peer // by rank here, nil for this rank; empty once freed
	context uint32  // even; odd is the same communicator's collectives
	log     *callLog
	outer   call // what the collectives called are part of, or 0
	acked   int  // deaths, of all in the job, that the program has acknowledged here
	scratch []uint64
}

// worldContext is the number of the communicator that Init returns.
const worldContext = 0

// newComm makes a communicator. The mutex is held.
func newComm(w *world, group []int32, context uint32) *Comm {
	c := &Comm{w: w, group: group, context: context, index: make([]int32, w.size), peers: make([]*peer, len(group)), log: &callLog{}}
	for i := range c.index {
		c.index[i] = -1
	}
	for i, g := range group {
		c.index[g] = int32(i)
		c.peers[i] = w.peers[g]
	}
	c.rank = int(c.index[w.rank])
	if w.comms == nil {
		w.comms = make(map[uint32]*Comm)
	}
	w.comms[context] = c
	c.hear()
	return c
}

// hear takes note of what has come for c before it was made.
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

// JobRank returns the rank, in the job's first communicator, of a rank of c.
// Errors name ranks so.
func (c *Comm) JobRank(rank int) int { return int(c.group[rank]) }

// Job returns the job's name.
func (c *Comm) Job() string { return c.w.job.Identity.Job }

// NIC returns the NIC that the rank's messages go through, for its counters;
// nil for a job of one rank that needs none.
func (c *Comm) NIC() *vipl.NIC { return c.w.nic }

// started is when the process began, the zero of Wtime.
var started = time.Now()

// Wtime returns the time in seconds since some moment in the past (MPI_Wtime):
// the clock of the NIC, or of the process if it has none.
func (c *Comm) Wtime() float64 {
	if c.w.nic == nil {
		return time.Since(started).Seconds()
	}
	return float64(c.w.nic.Now()) / 1e9
}

// Free releases c (MPI_Comm_free). Calls on c return ErrFinalized from then on. The
// communicators that Init and Self return cannot be freed: ErrComm. Finalize releases
// them.
func (c *Comm) Free() error {
	w := c.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(c.peers) == 0 {
		return ErrFinalized
	}
	switch c.context {
	case worldContext:
		return opError("free", ErrComm, "it is the job's first communicator, which Init returned: Finalize releases it")
	case maxContext:
		return opError("free", ErrComm, "it is the communicator that Self returns: Finalize releases it")
	}
	c.peers = nil
	delete(w.comms, c.context)
	return nil
}

// String describes c for people.
func (c *Comm) String() string {
	return fmt.Sprintf("rank %d of %d in job %q", c.rank, len(c.group), c.w.job.Identity.Job)
}

// usable returns why nothing can be done with c, or nil.
func (c *Comm) usable() error {
	if c.w.fatal != nil {
		return c.w.fatal
	}
	if len(c.peers) == 0 {
		return ErrFinalized
	}
	return nil
}

// badPeer says what is wrong with a rank or tag: with None nothing is.
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
