package mplite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/bits"
)

// coll is one call of a collective. Its messages have a separate context, which no user's tag can
// reach. Their tag is the number of the call, so that messages of a rank that is already in the
// next call cannot be confused with this one's.
//
// One function for each collective implements both forms of the call. In a blocking call, its
// sends, receives, copies and reductions happen while it runs. In a nonblocking call, the function
// records them in sched.
type coll struct {
	c     *Comm
	ctx   context.Context
	call  call
	rank  int
	size  int
	among []int32 // the ranks in c of the call's participants; nil if all ranks of c participate (see coll_hosts.go)
	tag   int
	s     spec
	sched *schedule
	over  error // not nil if the call has failed at another rank already
}

// begin starts a blocking call.
func (c *Comm) begin(ctx context.Context, sig signature) (coll, error) {
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
	mine := sig.pack(cmp.Or(c.outer, sig.call))
	over, err := c.enter(mine)
	if err != nil {
		return coll{}, err
	}
	if err := cmp.Or(checkContext(ctx), sig.typ.err); err != nil {
		c.wrong(c.log.turn, mine, err.Error())
		return coll{}, err
	}
	w.stats.Collectives[sig.call.collective()]++
	return coll{
		c: c, ctx: ctx, call: sig.call, rank: c.rank, size: len(c.group), tag: int(c.log.turn),
		s: spec{context: c.context | 1, flags: w.order, typ: sig.typ, call: mine.call}, over: over,
	}, nil
}

// send returns when the caller may reuse buf.
func (x *coll) send(buf []byte, dst int) error {
	if x.over != nil {
		return x.over
	}
	if x.sched != nil {
		x.sched.send(buf, x.at(dst))
		x.sched.wait()
		return nil
	}
	return x.c.send(x.ctx, buf, x.at(dst), x.tag, x.s)
}

func (x *coll) recv(buf []byte, src int) error {
	if x.over != nil {
		return x.over
	}
	if x.sched != nil {
		x.sched.recv(buf, x.at(src))
		x.sched.wait()
		return nil
	}
	st, err := x.c.recv(x.ctx, buf, x.at(src), x.tag, x.s)
	return x.checked(st, err, len(buf))
}

// swap sends and receives at the same time.
func (x *coll) swap(sendbuf []byte, dst int, recvbuf []byte, src int) error {
	if x.over != nil {
		return x.over
	}
	if x.sched != nil {
		x.sched.recv(recvbuf, x.at(src))
		x.sched.send(sendbuf, x.at(dst))
		x.sched.wait()
		return nil
	}
	st, err := x.c.exchange(x.ctx, sendbuf, x.at(dst), x.tag, recvbuf, x.at(src), x.tag, x.s)
	return x.checked(st, err, len(recvbuf))
}

// parted is a buffer with a part for each rank or, if same is set, with one part for all ranks.
type parted struct {
	buf   []byte
	parts layout
	same  bool
	long  bool // only the parts that are too long for shared memory are moved
}

func (p *parted) of(rank int) []byte {
	if p.same {
		return p.buf
	}
	return p.parts.part(p.buf, rank)
}

// moves reports whether together moves the part of a rank.
func (p *parted) moves(rank int) bool { return !p.long || len(p.of(rank)) > partMost }

// together receives from each other rank into its part of in, and sends its part of out to each
// other rank. It starts all these operations and then waits for them. A nil in means no receives, a
// nil out no sends. Each rank starts with the rank that follows it, so that the ranks do not all
// send to the same rank.
func (x *coll) together(in, out *parted) error {
	if x.over != nil {
		return x.over
	}
	if x.sched != nil {
		for k := 1; in != nil && k < x.size; k++ {
			if src := around(x.rank-k, x.size); in.moves(src) {
				x.sched.recv(in.of(src), x.at(src))
			}
		}
		for k := 1; out != nil && k < x.size; k++ {
			if dst := around(x.rank+k, x.size); out.moves(dst) {
				x.sched.send(out.of(dst), x.at(dst))
			}
		}
		x.sched.wait()
		return nil
	}
	w, c := x.c.w, x.c
	if len(c.reqs) == 0 {
		c.reqs = make([]*request, 2*len(c.group))
	}
	recvs, sends := c.reqs[:x.size], c.reqs[x.size:2*x.size]
	w.mu.Lock()
	defer w.mu.Unlock()
	var failed error
	for k := 1; in != nil && k < x.size && failed == nil; k++ {
		src := around(x.rank-k, x.size)
		if !in.moves(src) {
			continue
		}
		recvs[src], failed = c.postRecv(in.of(src), x.at(src), x.tag, x.s)
	}
	for k := 1; out != nil && k < x.size && failed == nil; k++ {
		dst := around(x.rank+k, x.size)
		if !out.moves(dst) {
			continue
		}
		if p := c.peer(x.at(dst)); p.clearToSend(len(out.of(dst))) {
			p.sendEager(out.of(dst), x.tag, x.s, 0)
		} else {
			sends[dst] = w.beginSend(c, p, out.of(dst), x.tag, x.s)
		}
	}
	return x.finishAll(in, failed)
}

// finishAll waits for the requests of together. If one of them fails, it cancels the others as far
// as possible, because no rank can use the data that they transfer. The caller holds the mutex.
func (x *coll) finishAll(in *parted, failed error) error {
	w, ctx := x.c.w, x.ctx
	for {
		var pending *request
		canceled := failed != nil
		for i, r := range x.c.reqs {
			switch {
			case r == nil:
				continue
			case r.state != stateDone && failed != nil:
				w.cancel(r, failed)
			}
			if r.waited = true; r.state != stateDone {
				pending = r
				continue
			}
			err := r.err
			if i < x.size {
				err = x.judged(r.status, err, len(in.of(i)))
			}
			failed = cmp.Or(failed, err)
			w.release(r)
			x.c.reqs[i] = nil
		}
		if pending == nil {
			return failed
		}
		if failed != nil && !canceled { // pending is a request before the failed one: continue with the next request
			continue
		}
		if err := w.step(ctx); err != nil {
			failed, ctx = cmp.Or(failed, pending.interrupted(err)), context.Background()
		}
	}
}

// copy is the built-in copy.
func (x *coll) copy(dst, src []byte) int {
	if x.sched != nil {
		x.sched.copy(dst, src)
		return min(len(dst), len(src))
	}
	return copy(dst, src)
}

// apply sets dst to left op right.
func apply[T any](x *coll, op Op[T], dst, left, right []T) {
	if x.sched == nil {
		op.apply(dst, left, right)
	} else {
		x.sched.reduce(asBytes(dst), asBytes(left), asBytes(right))
	}
}

// checked returns an error for a message whose size or element type differs from the expected one:
// the ranks have called the collective with different arguments.
func (x *coll) checked(st Status, err error, want int) error {
	if err == nil && st.Count == want {
		return nil
	}
	x.c.w.mu.Lock()
	defer x.c.w.mu.Unlock()
	return x.judged(st, err, want)
}

// judged is checked for callers that hold the mutex.
func (x *coll) judged(st Status, err error, want int) error {
	got := st.Count
	if e, ok := err.(*TruncateError); ok {
		got = e.Size
	} else if err != nil && !errors.Is(err, ErrType) || err == nil && got == want {
		return err
	}
	reason := otherLength(st.Source, uint64(got), x.c.rank, want)
	if errors.Is(err, ErrType) {
		reason = otherElements(st.Source, x.c.rank)
	}
	theirs := callSig{x.s.call, elemUnknown}
	return x.c.differ(int32(x.tag), x.mine(), theirs, int32(st.Source), reason, nil)
}

// otherLength and otherElements are reasons of a MismatchError.
func otherLength(src int, got uint64, rank, want int) string {
	return fmt.Sprintf("rank %d sent %d bytes where rank %d expects %d", src, got, rank, want)
}

func otherElements(src, rank int) string {
	return fmt.Sprintf("rank %d sent other elements than rank %d expects", src, rank)
}

func (x *coll) mine() callSig { return callSig{x.s.call, x.s.typ.sig} }

// invalid reports invalid arguments of the caller, both to the caller and to the other ranks.
func (x *coll) invalid(class error, format string, args ...any) error {
	w := x.c.w
	w.mu.Lock()
	defer w.mu.Unlock()
	reason := fmt.Sprintf(format, args...)
	x.c.wrong(int32(x.tag), x.mine(), reason)
	return opError(x.call.String(), class, "%s", reason)
}

// checkRoot returns an error if root is not a valid rank.
func (x *coll) checkRoot(root int) error {
	if root < 0 || root >= x.size {
		return x.invalid(ErrRank, "root %d is not in 0..%d", root, x.size-1)
	}
	return nil
}

// checkLen returns an error if a buffer does not have the length that the call requires.
func (x *coll) checkLen(what string, got, want int) error {
	if got != want {
		return x.invalid(ErrArgument, "%s has %d elements, want %d", what, got, want)
	}
	return nil
}

// scratchKept is the maximum scratch memory, in bytes, that a communicator keeps.
const scratchKept = 4 << 20

// words returns scratch memory of at least n bytes. All blocking calls share the same memory,
// because only one runs at a time.
func (x *coll) words(n int) []uint64 { return x.memory(&x.c.scratch, n) }

// memory returns the memory that the communicator keeps, of at least n bytes.
func (x *coll) memory(kept *[]uint64, n int) []uint64 {
	need := (n + 7) / 8
	if x.sched == nil && need <= len(*kept) {
		return *kept
	}
	s := make([]uint64, max(need, 64))
	if x.sched == nil && n <= scratchKept {
		*kept = s
	}
	return s
}

// partial returns n bytes of memory for a two-level algorithm, which calls other
// algorithms.
func (x *coll) partial(n int) []byte { return asBytes(x.memory(&x.c.partial, n))[:n] }

// scratch returns scratch memory for n elements.
func scratch[T any](x *coll, n int) []T { return asNumbers[T](x.words(n * sizeOf[T]()))[:n] }

func (x *coll) scratchBytes(n int) []byte { return scratch[byte](x, n) }

// layout is the position of each rank's part in a buffer.
type layout struct {
	block  int   // bytes of every part, one behind the other, if ends is nil
	starts []int // where each part begins
	ends   []int // where each part ends
}

func (l layout) part(buf []byte, i int) []byte {
	if l.ends == nil {
		return buf[i*l.block : (i+1)*l.block : (i+1)*l.block]
	}
	return buf[l.starts[i]:l.ends[i]:l.ends[i]]
}

// partsOf returns the layout of parts with counts elements of size bytes each, and checks it
// against a buffer's length. displs are the optional displacements: the index of the first element
// of each part. Without them, the parts follow one another and fill the buffer.
func (x *coll) partsOf(what string, counts, displs []int, size, length int) (layout, error) {
	bad := func(format string, args ...any) (layout, error) {
		return layout{}, x.invalid(ErrArgument, format, args...)
	}
	if len(counts) != x.size || displs != nil && len(displs) != x.size {
		return bad("%s has %d counts and %d displacements for %d ranks", what, len(counts), len(displs), x.size)
	}
	l := layout{starts: make([]int, x.size), ends: make([]int, x.size)}
	at := 0
	for i, n := range counts {
		if n < 0 || n > maxMessage {
			return bad("%s: count %d of rank %d is out of range", what, n, i)
		}
		if displs != nil {
			if at = displs[i]; at < 0 || at > length-n {
				return bad("%s: %d elements from element %d on, of rank %d, are not in a buffer of %d", what, n, at, i, length)
			}
		}
		l.starts[i], l.ends[i] = at*size, (at+n)*size
		at += n
	}
	if displs != nil {
		return l, nil
	}
	return l, x.checkLen(what, length, at)
}

// optional returns the i-th of the caller's n displacements, or nil if there are none. The caller
// must pass all or none.
func (x *coll) optional(displs [][]int, i, n int) ([]int, error) {
	if len(displs) == 0 {
		return nil, nil
	}
	if len(displs) != n {
		return nil, x.invalid(ErrArgument, "%d slices of displacements, want none or %d", len(displs), n)
	}
	return displs[i], nil
}

// floorPow2 returns the largest power of two that is at most n.
func floorPow2(n int) int { return 1 << (bits.Len(uint(n)) - 1) }

// around returns i modulo n, for i >= -n.
func around(i, n int) int {
	if i %= n; i < 0 {
		i += n
	}
	return i
}
