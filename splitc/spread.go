package splitc

import (
	"context"
	"fmt"
	"hash/fnv"
	"iter"
	"reflect"
)

// Array is a spread array, A[n]::[m]: n blocks of m elements each. Block i is on processor
// i%Procs(), whose blocks are contiguous. The array begins at the same address in all processes. It
// is a comparable value. Its methods, except Local, do not check anything.
type Array[T any] struct {
	_     [0]*T
	base  uint64
	n, m  int
	procs int32
}

// AllSpreadMalloc allocates a spread array of n blocks of m elements, all zero
// (all_spread_malloc). All processes must call it with the same arguments. With n = Procs()
// each process has m elements.
func AllSpreadMalloc[T any](ctx context.Context, w *World, n, m int) (a Array[T], err error) {
	const name = "all_spread_malloc"
	if err := w.ready(name); err != nil {
		return a, err
	}
	if err := checkType[T](); err != nil {
		return a, opError(name, err, "it cannot be in a spread heap")
	}
	per := Array[T]{n: n, procs: int32(w.procs)}.rows()
	most := int(w.spans.size / size[T]())
	if n < 0 || m < 0 {
		return a, opError(name, ErrArgument, "%d blocks of %d elements", n, m)
	}
	if per > 0 && m > most/per {
		return a, opError(name, ErrMemory, "%d blocks of %d elements of %d bytes on each processor do not fit into the heap of %d bytes", per, m, size[T](), w.spans.size)
	}
	bytes := uint64(per) * uint64(m) * size[T]()
	lo, used, ok := w.spans.alloc(bytes)
	if !ok {
		return a, opError(name, ErrMemory, "%d bytes on each processor: no gap in the heap of %d bytes is large enough", bytes, w.spans.size)
	}
	if used {
		clear(w.heap[lo : lo+bytes])
	}
	a = Array[T]{base: lo, n: n, m: m, procs: int32(w.procs)}
	if err := w.meet(ctx, a.call(codeMalloc, bytes)); err != nil {
		return Array[T]{}, err
	}
	return a, nil
}

// call returns the collective that allocates or frees a, with bytes bytes on each processor. It
// contains a hash of the array's address, blocks and type.
func (a Array[T]) call(code uint8, bytes uint64) call {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d %d %d %v %d", a.base, a.n, a.m, reflect.TypeFor[T](), size[T]())
	sum := h.Sum64()
	return call{code: code, size: bytes, op: max(1, uint32(sum>>32)^uint32(sum))}
}

// rows returns the number of blocks for which a processor has memory.
func (a Array[T]) rows() int {
	if a.n == 0 {
		return 0
	}
	return (a.n-1)/int(a.procs) + 1
}

// AllSpreadFree frees a spread array (all_spread_free). All processes must call it, and no process
// may access the array after the first call. Complete gets and puts with Sync, and stores with
// StoreSync or AllStoreSync, before. Freeing an array twice is ErrArgument, unless another array of
// the same length has been allocated at its address.
func AllSpreadFree[T any](ctx context.Context, w *World, a Array[T]) error {
	const name = "all_spread_free"
	if err := w.ready(name); err != nil {
		return err
	}
	if a.base == 0 {
		return opError(name, errNull, "the array is the zero Array")
	}
	i, found := w.spans.find(a.base)
	if !found || w.spans.live[i].lo != a.base || a.base < w.layout.end {
		return opError(name, errFreed, "no allocation begins at %#x", a.base)
	}
	have, want := w.spans.live[i].hi-a.base, granules(uint64(a.rows()*a.m)*size[T]())
	if have != want || int(a.procs) != w.procs {
		return opError(name, errFreed, "%d bytes for %d processors at %#x: another array is there, of %d bytes for %d", want, a.procs, a.base, have, w.procs)
	}
	if err := w.meet(ctx, a.call(codeFree, have)); err != nil {
		return err
	}
	w.spans.free(a.base)
	return nil
}

// At returns a pointer to element j of block i (&A[i][j]).
func (a Array[T]) At(i, j int) Global[T] {
	procs := max(1, int(a.procs))
	return Global[T]{off: a.base + uint64(i/procs*a.m+j)*size[T](), proc: processor(i % procs)}
}

// On returns a pointer to the first element on a processor.
func (a Array[T]) On(proc int) Global[T] { return Global[T]{off: a.base, proc: processor(proc)} }

// Spread returns a spread pointer to block 0.
func (a Array[T]) Spread() Spread[T] {
	return Spread[T]{off: a.base, step: uint64(a.m) * size[T](), procs: a.procs}
}

// Blocks returns the number of blocks.
func (a Array[T]) Blocks() int { return a.n }

// Block returns the number of elements in a block.
func (a Array[T]) Block() int { return a.m }

// Local returns this process's part: its blocks, contiguously. It is memory of the heap, see
// ToLocal. It returns nil after Exit, for the zero Array, and if w has no allocation of that length
// at the array's place: the array was freed, or belongs to another World.
func (a Array[T]) Local(w *World) []T {
	if a.base == 0 || a.n == 0 || int(a.procs) != w.procs || w.stop == ErrClosed {
		return nil
	}
	most := a.rows() * a.m
	if !w.spans.holds(a.base, uint64(most)*size[T]()) {
		return nil
	}
	return localSlice[T](w, a.base, most)[:w.myBlocks(a.n)*a.m]
}

// myBlocks returns how many of n blocks belong to this process.
func (w *World) myBlocks(n int) int { return (n - w.me + w.procs - 1) / w.procs }

// Mine returns the numbers of this process's blocks, in order (for_my_1d).
func (a Array[T]) Mine(w *World) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := w.me; i < a.n; i += w.procs {
			if !yield(i) {
				return
			}
		}
	}
}

// Mine2D returns the row and column of each of this process's blocks, in order. The blocks are
// those of a matrix with the given number of columns, row by row: A[rows][columns]::[m]
// (for_my_2d).
func (a Array[T]) Mine2D(w *World, columns int) iter.Seq2[int, int] {
	return func(yield func(int, int) bool) {
		for i := range a.Mine(w) {
			if columns < 1 || !yield(i/columns, i%columns) {
				return
			}
		}
	}
}

// Spread is a spread pointer: its arithmetic moves over processors first, and then to the next
// local block. It is a comparable value like Global.
type Spread[T any] struct {
	_     [0]*T
	off   uint64
	step  uint64 // bytes from block to block on one processor
	proc  int32
	procs int32
}

// Global returns s as a global pointer.
func (s Spread[T]) Global() Global[T] { return Global[T]{off: s.off, proc: s.proc} }

// Proc returns the processor part.
func (s Spread[T]) Proc() int { return int(s.proc) }

// Add returns the pointer n blocks after s.
func (s Spread[T]) Add(n int) Spread[T] {
	procs := max(1, int(s.procs))
	at := int(s.proc) + n
	rows := at / procs
	if at%procs < 0 {
		rows--
	}
	s.proc = processor(at - rows*procs)
	s.off += uint64(rows) * s.step
	return s
}

// Sub returns the number of blocks from q to s, which must point into the same array.
func (s Spread[T]) Sub(q Spread[T]) int {
	rows := int(int64(s.off-q.off) / int64(max(1, s.step)))
	return rows*int(s.procs) + int(s.proc) - int(q.proc)
}
