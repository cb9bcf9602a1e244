package mplite

import (
	"context"
	"math/bits"
)

// Collective names a collective operation in Stats.
type Collective uint8

// The collectives, indices of Stats.Collectives.
const (
	CollBarrier Collective = iota
	CollBcast
	CollReduce
	CollAllreduce
	CollGather
	CollScatter
	CollAllgather
	CollAlltoall
	CollReduceScatter
	CollScan
	CollExscan
	numCollectives
)

var collectiveNames = [numCollectives]string{
	"barrier", "bcast", "reduce", "allreduce", "gather", "scatter",
	"allgather", "alltoall", "reduce_scatter", "scan", "exscan",
}

// String returns the name as metrics use it.
func (k Collective) String() string { return collectiveNames[k] }

// Where algorithms change, in bytes. See the table in the package comment.
const (
	bcastLong      = 128 << 10 // message
	reduceLong     = 16 << 10  // vector
	ringLong       = 256 << 10 // vector
	gatherShort    = 4 << 10   // part
	allgatherShort = 16 << 10  // all parts together
	alltoallShort  = 256       // part
)

// coll is one call of a Collective. Its messages have a context of their own
// (no user's tag can reach it) and the number of the call as their tag, so
// that a rank which runs ahead into the next call cannot be misunderstood.
type coll struct {
	c    *Comm
	ctx  context.Context
	kind Collective
	rank int
	size int
	tag  int
	s    spec
}

// begin starts a collective call with elements of the given type.
func (c *Comm) begin(ctx context.Context, kind Collective, typ *element) (coll, error) {
	if typ.err != nil {
		return coll{}, typ.err
	}
	if err := checkContext(ctx); err != nil {
		return coll{}, err
	}
	w := c.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := c.usable(); err != nil {
		return coll{}, err
	}
	if len(w.dead) > 0 {
		if err := c.casualty(); err != nil {
			return coll{}, err
		}
	}
	c.turn = (c.turn + 1) & MaxTag
	w.stats.Collectives[kind]++
	return coll{
		c: c, ctx: ctx, kind: kind, rank: c.rank, size: len(c.group), tag: int(c.turn),
		s: spec{context: c.context | 1, flags: w.order, typ: typ},
	}, nil
}

func (x *coll) send(buf []byte, dst int) error { return x.c.send(x.ctx, buf, dst, x.tag, x.s) }

func (x *coll) recv(buf []byte, src int) error {
	st, err := x.c.recv(x.ctx, buf, src, x.tag, x.s)
	return x.checked(st, err, len(buf))
}

// swap sends and receives at the same time.
func (x *coll) swap(sendbuf []byte, dst int, recvbuf []byte, src int) error {
	st, err := x.c.exchange(x.ctx, sendbuf, dst, x.tag, recvbuf, src, x.tag, x.s)
	return x.checked(st, err, len(recvbuf))
}

// checked turns a message of another size than expected into an error: the
// ranks have called the collective with different arguments.
func (x *coll) checked(st Status, err error, want int) error {
	if isTruncate(err) || err == nil && st.Count != want {
		got := st.Count
		if e, ok := err.(*TruncateError); ok {
			got = e.Size
		}
		return opError(x.kind.String(), ErrArgument, "rank %d sent %d bytes where rank %d expects %d: all ranks must call it with matching counts",
			st.Source, got, x.rank, want)
	}
	return err
}

// checkRoot says what is wrong with the root that a caller gives.
func (c *Comm) checkRoot(kind Collective, root int) error {
	if root < 0 || root >= len(c.group) {
		return opError(kind.String(), ErrRank, "root %d is not in 0..%d", root, len(c.group)-1)
	}
	return nil
}

// checkLen says that a buffer does not have the length that the call implies.
func checkLen(kind Collective, what string, got, want int) error {
	if got != want {
		return opError(kind.String(), ErrArgument, "%s has %d elements, want %d", what, got, want)
	}
	return nil
}

// scratchKept is the most scratch memory, in bytes, that a communicator keeps.
const scratchKept = 4 << 20

// words returns scratch memory of at least n bytes. It is the same memory at
// every call: one collective runs at a time.
func (c *Comm) words(n int) []uint64 {
	need := (n + 7) / 8
	if need <= len(c.scratch) {
		return c.scratch
	}
	s := make([]uint64, max(need, 64))
	if n <= scratchKept {
		c.scratch = s
	}
	return s
}

// scratch returns scratch memory for n elements.
func scratch[T Number](c *Comm, n int) []T { return asNumbers[T](c.words(n * sizeOf[T]()))[:n] }

func (c *Comm) scratchBytes(n int) []byte { return scratch[byte](c, n) }

// layout says where each rank's part lies in a buffer: packed, in rank order.
type layout struct {
	block int   // bytes of every part, if ends is nil
	ends  []int // where each part ends
}

func (l layout) part(buf []byte, i int) []byte {
	if l.ends == nil {
		return buf[i*l.block : (i+1)*l.block : (i+1)*l.block]
	}
	start := 0
	if i > 0 {
		start = l.ends[i-1]
	}
	return buf[start:l.ends[i]:l.ends[i]]
}

// partsOf makes the layout of parts with counts elements of size bytes each,
// in memory that it takes over, and checks it against a buffer's length.
func (c *Comm) partsOf(kind Collective, what string, counts []int, size, length int) (layout, error) {
	if len(counts) != len(c.group) {
		return layout{}, opError(kind.String(), ErrArgument, "%s has %d counts for %d ranks", what, len(counts), len(c.group))
	}
	l := layout{ends: make([]int, len(counts))}
	sum := 0
	for i, n := range counts {
		if n < 0 || n > maxMessage {
			return layout{}, opError(kind.String(), ErrArgument, "%s: count %d of rank %d is out of range", what, n, i)
		}
		sum += n
		l.ends[i] = sum * size
	}
	return l, checkLen(kind, what, length, sum)
}

// floorPow2 returns the largest power of two up to n.
func floorPow2(n int) int { return 1 << (bits.Len(uint(n)) - 1) }

// around returns i modulo n, for i from -n up.
func around(i, n int) int {
	if i %= n; i < 0 {
		i += n
	}
	return i
}
