package splitc

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"reflect"
)

// Codes of the collectives in messages.
const (
	codeStart = 1 + iota
	codeExit
	codeBarrier
	codeMalloc
	codeFree
	codeBroadcast
	codeReduce
	codeScan
	codeSegmentedScan
	codeGather
	codeScatter
	codeAllStoreSync
	codeReduceToOne
	codeReduceSlice
	codeExclusiveScan
	codeBroadcastSlice
	codeAllGather
)

var callNames = [...]string{
	codeStart: "start", codeExit: "exit", codeBarrier: "barrier", codeMalloc: "all_spread_malloc", codeFree: "all_spread_free",
	codeBroadcast: "broadcast", codeReduce: "reduce to all", codeScan: "scan", codeSegmentedScan: "segmented scan",
	codeGather: "gather", codeScatter: "scatter", codeAllStoreSync: "all_store_sync", codeReduceToOne: "reduce to one",
	codeReduceSlice: "reduce of a slice to all", codeExclusiveScan: "exclusive scan", codeBroadcastSlice: "broadcast of a slice",
	codeAllGather: "gather to all",
}

// call is the description of a collective, which must be the same in all processes.
type call struct {
	seq  uint32 // number of earlier collectives
	code uint8
	root uint16 // if the collective has one
	size uint64 // bytes of a process's part
	op   uint32 // hash of the operation, or of other things that must be equal
	// inOrder means that the result depends on the order or the grouping in which values are
	// combined.
	inOrder bool
}

// inOrderBit is the bit for inOrder, in the word of the code.
const inOrderBit = 1 << 8

const callSize = 20

// maxCallText is the longest text of a call.
const maxCallText = 160

func (c call) put(b []byte) {
	binary.LittleEndian.PutUint32(b, c.seq)
	code := uint16(c.code)
	if c.inOrder {
		code |= inOrderBit
	}
	binary.LittleEndian.PutUint16(b[4:], code)
	binary.LittleEndian.PutUint16(b[6:], c.root)
	binary.LittleEndian.PutUint64(b[8:], c.size)
	binary.LittleEndian.PutUint32(b[16:], c.op)
}

// getCall decodes the output of put, which may be arbitrary bytes.
func getCall(b []byte) call {
	code := binary.LittleEndian.Uint16(b[4:])
	return call{seq: binary.LittleEndian.Uint32(b), code: uint8(code), inOrder: code&inOrderBit != 0, root: binary.LittleEndian.Uint16(b[6:]),
		size: binary.LittleEndian.Uint64(b[8:]), op: binary.LittleEndian.Uint32(b[16:])}
}

func (c call) String() string {
	name := fmt.Sprint("unknown call ", c.code)
	if int(c.code) < len(callNames) && c.code != 0 {
		name = callNames[c.code]
	}
	text := fmt.Sprintf("%s (its collective %d", name, c.seq)
	if c.size != 0 {
		text += fmt.Sprintf(", %d bytes", c.size)
	}
	if c.root != 0 || c.rooted() {
		text += fmt.Sprintf(", root %d", c.root)
	}
	switch {
	case c.op == 0:
	case c.code == codeMalloc || c.code == codeFree:
		text += fmt.Sprintf(", the array's address, blocks and type hash to %x", c.op)
	case c.code == codeStart:
		text += fmt.Sprintf(", the layer and the registrations hash to %x", c.op)
	default:
		text += fmt.Sprintf(", operation %x", c.op)
	}
	return text + ")"
}

// rooted reports whether the collective is one with a root.
func (c call) rooted() bool {
	switch c.code {
	case codeBroadcast, codeBroadcastSlice, codeReduceToOne, codeGather, codeScatter:
		return true
	}
	return false
}

// Barrier returns when all processes have called it (barrier). It does not complete gets, puts and
// stores.
func (w *World) Barrier(ctx context.Context) error {
	if err := w.ready("barrier"); err != nil {
		return err
	}
	w.stats.Barriers++
	return w.meet(ctx, call{code: codeBarrier})
}

// meet is a barrier that is part of a collective.
func (w *World) meet(ctx context.Context, c call) error {
	if err := w.gatherUp(ctx, &c, nil); err != nil {
		return err
	}
	if err := w.exchange(ctx, c, nil, nil); err != nil {
		return err
	}
	return w.spreadDown(ctx, c, nil)
}

// gatherUp starts a collective: it assigns its number, and passes the parts of the children to
// take, in order.
func (w *World) gatherUp(ctx context.Context, c *call, take func(kid int, part []byte)) error {
	w.tree.seq++
	c.seq = w.tree.seq
	w.stats.Collectives++
	if c.inOrder && w.tree.apart {
		if err := w.same(ctx, *c); err != nil {
			return err
		}
	}
	for i, k := range w.tree.of(*c).kids {
		if err := w.hear(ctx, *c, k); err != nil {
			return err
		}
		if take != nil {
			take(i, k.part())
		}
		k.full = false
	}
	return nil
}

// same announces, along the tree of hosts, that this process and all below it are in a collective
// that uses the tree of ranks.
func (w *World) same(ctx context.Context, c call) error {
	for _, k := range w.tree.hosts.kids {
		if err := w.hear(ctx, c, k); err != nil {
			return err
		}
		k.full = false
	}
	if p := w.tree.hosts.parent; p != nil {
		return w.broken(w.heard(w.say(ctx, p.rank, kindSame, c, nil)))
	}
	return nil
}

// exchange sends this process's part to its parent, if it has one, and passes the parent's answer
// to take.
func (w *World) exchange(ctx context.Context, c call, part []byte, take func(part []byte)) error {
	p := w.tree.of(c).parent
	if p == nil {
		return nil
	}
	up, _ := w.tree.kinds(c)
	if err := w.heard(w.say(ctx, p.rank, up, c, part)); err != nil {
		return w.broken(err)
	}
	if err := w.hear(ctx, c, p); err != nil {
		return err
	}
	if take != nil {
		take(p.part())
	}
	p.full = false
	return nil
}

// spreadDown sends each child the part that part returns for it.
func (w *World) spreadDown(ctx context.Context, c call, part func(kid int) []byte) error {
	_, down := w.tree.kinds(c)
	for i, k := range w.tree.of(c).kids {
		var b []byte
		if part != nil {
			b = part(i)
		}
		if err := w.heard(w.say(ctx, k.rank, down, c, b)); err != nil {
			return w.broken(err)
		}
	}
	return nil
}

// hear waits for the message of a neighbour, and checks that its collective equals this process's.
func (w *World) hear(ctx context.Context, c call, p *place) error {
	if err := w.wait(ctx, of(callNames[c.code], p.rank), func() bool { return p.full }); err != nil {
		return w.broken(err)
	}
	if other := p.call(); other != c {
		return w.mismatch(c, other, p.rank)
	}
	return nil
}

// Broadcast returns process root's value in all processes (all_bcast).
func Broadcast[T any](ctx context.Context, w *World, root int, v T) (T, error) {
	s := []T{v}
	err := broadcast(ctx, w, codeBroadcast, root, s)
	return s[0], err
}

// BroadcastSlice copies the contents of s from process root to all processes. s must have the same
// length in all of them.
func BroadcastSlice[T any](ctx context.Context, w *World, root int, s []T) error {
	return broadcast(ctx, w, codeBroadcastSlice, root, s)
}

func broadcast[T any](ctx context.Context, w *World, code uint8, root int, s []T) error {
	if err := w.checkRoot("broadcast", root); err != nil {
		return err
	}
	if err := checkType[T](); err != nil {
		return opError("broadcast", err, "it cannot be sent")
	}
	data := bytesOfSlice(s)
	c := call{code: code, root: uint16(root), size: uint64(len(data))}
	if len(data) <= maxPart {
		return w.broadcastShort(ctx, c, data, w.me == root)
	}
	return w.staged(ctx, c, len(data), scratchSize, func(at, n int) error {
		if w.me == root {
			copy(w.heap[scratch:], data[at:at+n])
		}
		return nil
	}, func(at, n int) error {
		if w.me == root {
			return nil
		}
		return w.fetch(ctx, root, data[at:at+n], scratch)
	})
}

// broadcastShort sends data from the root up the tree, and down to all processes.
func (w *World) broadcastShort(ctx context.Context, c call, data []byte, has bool) error {
	err := w.gatherUp(ctx, &c, func(_ int, part []byte) {
		if len(part) > 0 {
			has = true
			copy(data, part)
		}
	})
	if err != nil {
		return err
	}
	var up []byte
	if has {
		up = data
	}
	if err := w.exchange(ctx, c, up, func(part []byte) { copy(data, part) }); err != nil {
		return err
	}
	return w.spreadDown(ctx, c, func(int) []byte { return data })
}

// staged moves total bytes through the scratch memory, at most most at a time. In each round all
// processes first copy their data there with fill, and then read what they need with fetch.
func (w *World) staged(ctx context.Context, c call, total, most int, fill, fetch func(at, n int) error) error {
	for at := 0; at < total || at == 0; at += most {
		n := min(most, total-at)
		if err := fill(at, n); err != nil {
			return err
		}
		if err := w.meet(ctx, c); err != nil {
			return err
		}
		if err := fetch(at, n); err != nil {
			return w.broken(err)
		}
		if err := w.sync(ctx, Waiting{What: callNames[c.code]}); err != nil {
			return w.broken(err)
		}
		if err := w.meet(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// fetch starts to read from any heap, including this process's.
func (w *World) fetch(ctx context.Context, proc int, dst []byte, off uint64) error {
	if m := w.direct[proc]; m != nil {
		copy(dst, m[off:])
		return nil
	}
	return w.heard(w.layer.Get(ctx, proc, dst, off))
}

// Gather collects the slices src of all processes in dst of process root, in the order of processes
// (all_gather). src must have the same length in all processes. At the root dst must have Procs()
// times as many elements as src. Other processes ignore dst.
func Gather[T any](ctx context.Context, w *World, root int, src, dst []T) error {
	if err := w.checkRoot("gather", root); err != nil {
		return err
	}
	return gather(ctx, w, call{code: codeGather, root: uint16(root)}, w.me == root, src, dst)
}

// AllGather is Gather to all processes.
func AllGather[T any](ctx context.Context, w *World, src, dst []T) error {
	if err := w.ready("gather"); err != nil {
		return err
	}
	return gather(ctx, w, call{code: codeAllGather}, true, src, dst)
}

func gather[T any](ctx context.Context, w *World, c call, wanted bool, src, dst []T) error {
	if err := checkType[T](); err != nil {
		return opError("gather", err, "it cannot be sent")
	}
	if wanted && len(dst) != w.procs*len(src) {
		return opError("gather", ErrArgument, "the destination has %d elements, want %d for each of %d processes", len(dst), len(src), w.procs)
	}
	mine, all := bytesOfSlice(src), bytesOfSlice(dst)
	c.size = uint64(len(mine))
	return w.staged(ctx, c, len(mine), scratchSize, func(at, n int) error {
		copy(w.heap[scratch:], mine[at:at+n])
		return nil
	}, func(at, n int) error {
		for i := 0; wanted && n > 0 && i < w.procs; i++ {
			proc := (w.me + i) % w.procs // processes start at different owners
			if err := w.fetch(ctx, proc, all[proc*len(mine)+at:][:n], scratch); err != nil {
				return err
			}
		}
		return nil
	})
}

// Scatter fills dst in each process with its part of src of process root (all_scatter): the first
// len(dst) elements for process 0, and so on. dst must have the same length in all processes. At
// the root src must have Procs() times as many elements as dst. Other processes ignore src.
func Scatter[T any](ctx context.Context, w *World, root int, src, dst []T) error {
	if err := w.checkRoot("scatter", root); err != nil {
		return err
	}
	if err := checkType[T](); err != nil {
		return opError("scatter", err, "it cannot be sent")
	}
	if w.me == root && len(src) != w.procs*len(dst) {
		return opError("scatter", ErrArgument, "the source has %d elements, want %d for each of %d processes", len(src), len(dst), w.procs)
	}
	mine, all := bytesOfSlice(dst), bytesOfSlice(src)
	c := call{code: codeScatter, root: uint16(root), size: uint64(len(mine))}
	most := scratchSize / w.procs
	return w.staged(ctx, c, len(mine), most, func(at, n int) error {
		for proc := 0; w.me == root && proc < w.procs; proc++ {
			copy(w.heap[scratch+proc*most:], all[proc*len(mine)+at:][:n])
		}
		return nil
	}, func(at, n int) error {
		if n == 0 {
			return nil
		}
		return w.fetch(ctx, root, mine[at:at+n], uint64(scratch+w.me*most))
	})
}

// Scan returns the values of processes 0 to this one, combined by op (all_scan_add and similar):
// the inclusive prefix.
func Scan[T any](ctx context.Context, w *World, v T, op Op[T]) (T, error) {
	_, inclusive, err := scan(ctx, w, codeScan, v, op)
	return inclusive, err
}

// ExclusiveScan returns the values of the processes before this one, combined by op.
// Process 0 gets the zero value.
func ExclusiveScan[T any](ctx context.Context, w *World, v T, op Op[T]) (T, error) {
	exclusive, _, err := scan(ctx, w, codeExclusiveScan, v, op)
	return exclusive.v, err
}

// segment is a value of a segmented scan, and whether it starts a segment.
type segment[T any] struct {
	v     T
	start bool
}

// SegmentedScan is Scan within segments of processes. A process whose start is true begins a
// segment, and so does process 0.
func SegmentedScan[T any](ctx context.Context, w *World, v T, start bool, op Op[T]) (T, error) {
	if op.f == nil {
		return v, opError("scan", ErrArgument, "the operation is the zero Op")
	}
	over := Op[segment[T]]{id: op.id, f: func(a, b segment[T]) segment[T] {
		if !b.start {
			b.v = op.f(a.v, b.v)
		}
		b.start = b.start || a.start
		return b
	}}
	_, s, err := scan(ctx, w, codeSegmentedScan, segment[T]{v, start}, over)
	return s.v, err
}

// optional is a value or none, in the messages of scans.
type optional[T any] struct {
	v   T
	has bool
}

// scan returns the combined values before this process, if there are any, and those up to and
// including it.
func scan[T any](ctx context.Context, w *World, code uint8, v T, op Op[T]) (before optional[T], upTo T, err error) {
	if err := w.ready("scan"); err != nil {
		return before, v, err
	}
	if err := checkPart[optional[T]]("scan"); err != nil {
		return before, v, err
	}
	if op.f == nil {
		return before, v, opError("scan", ErrArgument, "the operation is the zero Op")
	}
	c := call{code: code, op: op.id, size: size[T](), inOrder: true}
	all := v                             // of this process and all below it
	ahead := make([]T, len(w.tree.kids)) // for each child, the combined values from this process up to the child
	err = w.gatherUp(ctx, &c, func(kid int, part []byte) {
		var below T
		copy(bytesOf(&below), part)
		ahead[kid] = all
		all = op.f(all, below)
	})
	if err != nil {
		return before, v, err
	}
	if err := w.exchange(ctx, c, bytesOf(&all), func(part []byte) {
		if len(part) > 0 {
			before.has = true
			copy(bytesOf(&before.v), part)
		}
	}); err != nil {
		return before, v, err
	}
	from := func(v T) T {
		if before.has {
			return op.f(before.v, v)
		}
		return v
	}
	err = w.spreadDown(ctx, c, func(kid int) []byte {
		next := from(ahead[kid])
		return bytesOf(&next)
	})
	return before, from(v), err
}

// ReduceToAll returns the values of all processes, combined by op in the order of processes
// (all_reduce_to_all_add and similar).
func ReduceToAll[T any](ctx context.Context, w *World, v T, op Op[T]) (T, error) {
	s := []T{v}
	err := reduce(ctx, w, call{code: codeReduce, op: op.id}, s, op)
	return s[0], err
}

// ReduceToOne is ReduceToAll for process root only. The others get the zero value
// (all_reduce_to_one_add and similar).
func ReduceToOne[T any](ctx context.Context, w *World, root int, v T, op Op[T]) (result T, err error) {
	if err := w.checkRoot("reduce", root); err != nil {
		return result, err
	}
	s := []T{v}
	err = reduce(ctx, w, call{code: codeReduceToOne, op: op.id, root: uint16(root)}, s, op)
	if w.me == root {
		result = s[0]
	}
	return result, err
}

// ReduceSliceToAll is ReduceToAll for each element of s, in place. s must have the same length in
// all processes.
func ReduceSliceToAll[T any](ctx context.Context, w *World, s []T, op Op[T]) error {
	return reduce(ctx, w, call{code: codeReduceSlice, op: op.id}, s, op)
}

// reduce checks the arguments of a reduction, and performs it.
func reduce[T any](ctx context.Context, w *World, c call, s []T, op Op[T]) error {
	if err := w.ready("reduce"); err != nil {
		return err
	}
	if err := checkPart[T]("reduce"); err != nil {
		return err
	}
	if op.f == nil {
		return opError("reduce", ErrArgument, "the operation is the zero Op")
	}
	c.inOrder = !op.exact
	return reduceSlice(ctx, w, c, s, op, nil)
}

// checkPart returns an error if a T cannot be part of a control message.
func checkPart[T any](call string) error {
	if err := checkType[T](); err != nil {
		return opError(call, err, "it cannot be sent")
	}
	if size[T]() > maxPart-1 {
		return opError(call, errType, "it has %d bytes (at most %d here)", size[T](), maxPart-1)
	}
	return nil
}

// reduceSlice reduces s in place, with as many elements at a time as fit into a message. If last is
// not nil, it is called for each part of s, which begins at element lo. At that time the values of
// the processes below have been combined into the part, and the part has not been sent up yet. last
// may change the part.
func reduceSlice[T any](ctx context.Context, w *World, c call, s []T, op Op[T], last func(lo int, part []T)) error {
	c.size = uint64(len(s)) * size[T]()
	most := max(1, maxPart/int(size[T]()))
	for lo := 0; lo == 0 || lo < len(s); lo += most {
		part := s[lo:min(lo+most, len(s))]
		if err := reducePart(ctx, w, c, part, op, func() {
			if last != nil {
				last(lo, part)
			}
		}); err != nil {
			return err
		}
	}
	return nil
}

// reducePart reduces a part that fits into one message.
func reducePart[T any](ctx context.Context, w *World, c call, s []T, op Op[T], last func()) error {
	mine := bytesOfSlice(s)
	err := w.gatherUp(ctx, &c, func(_ int, part []byte) {
		for i := range s {
			var v T
			copy(bytesOf(&v), part[min(len(part), i*int(size[T]())):])
			s[i] = op.f(s[i], v)
		}
	})
	if err != nil {
		return err
	}
	last()
	if err := w.exchange(ctx, c, mine, func(part []byte) { copy(mine, part) }); err != nil {
		return err
	}
	return w.spreadDown(ctx, c, func(int) []byte { return mine })
}

// Integer is the constraint of the bitwise operations.
type Integer interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uintptr
}

// Number is the constraint of the arithmetic operations.
type Number interface {
	Integer | ~float32 | ~float64
}

// Op is an associative operation of reductions and scans. It need not be commutative: values are
// combined in the order of processes. Their grouping depends only on the number of processes. So a
// sum of floating-point numbers is reproducible: it is the same in each run, over each layer, and
// for each placement of the processes.
type Op[T any] struct {
	id    uint32
	f     func(a, b T) T
	exact bool // the result depends neither on the order of values nor on their grouping
}

// OpFunc returns an operation that applies f. All processes must pass the same name, which is used
// to compare their calls.
func OpFunc[T any](name string, f func(a, b T) T) Op[T] {
	h := fnv.New32a()
	h.Write([]byte(name + "/" + reflect.TypeFor[T]().String()))
	return Op[T]{id: max(1, h.Sum32()), f: f}
}

// exactly returns an operation that is exact if is is true.
func exactly[T any](is bool, name string, f func(a, b T) T) Op[T] {
	op := OpFunc(name, f)
	op.exact = is
	return op
}

// whole reports whether T is an integer type.
func whole[T Number]() bool {
	one := T(1)
	return one/2 == 0
}

// Add returns a + b.
func Add[T Number]() Op[T] { return exactly(whole[T](), "add", func(a, b T) T { return a + b }) }

// Mul returns a * b.
func Mul[T Number]() Op[T] { return exactly(whole[T](), "mul", func(a, b T) T { return a * b }) }

// Min returns the smaller value, or a NaN if there is one.
func Min[T Number]() Op[T] { return exactly(true, "min", func(a, b T) T { return min(a, b) }) }

// Max returns the larger value, or a NaN if there is one.
func Max[T Number]() Op[T] { return exactly(true, "max", func(a, b T) T { return max(a, b) }) }

// And returns a & b.
func And[T Integer]() Op[T] { return exactly(true, "and", func(a, b T) T { return a & b }) }

// Or returns a | b.
func Or[T Integer]() Op[T] { return exactly(true, "or", func(a, b T) T { return a | b }) }

// Xor returns a ^ b.
func Xor[T Integer]() Op[T] { return exactly(true, "xor", func(a, b T) T { return a ^ b }) }
