package splitc

// Global is a global pointer: a processor, and an address in its spread heap. It is a comparable
// value without Go pointers, so it may itself be in a heap, or be sent. The zero value is null. Its
// methods do not check anything: the operations that use a pointer check it.
type Global[T any] struct {
	_    [0]*T // a Global[T] does not convert to a Global of another type
	off  uint64
	proc int32
	_    int32
}

// Proc returns the processor part (toproc).
func (p Global[T]) Proc() int { return int(p.proc) }

// Offset returns the local part, as an offset in bytes in the processor's heap.
func (p Global[T]) Offset() uint64 { return p.off }

// IsNull reports whether p is null, on whichever processor.
func (p Global[T]) IsNull() bool { return p.off == 0 }

// Add returns the pointer to the element n positions after p, on the same processor.
func (p Global[T]) Add(n int) Global[T] {
	p.off += uint64(n) * size[T]()
	return p
}

// Sub returns the number of elements from q to p, which must point to the same processor.
func (p Global[T]) Sub(q Global[T]) int { return int(int64(p.off-q.off) / int64(max(1, size[T]()))) }

// On returns the pointer to the same address on another processor.
func (p Global[T]) On(proc int) Global[T] {
	p.proc = processor(proc)
	return p
}

// processor converts a processor's number to its form in pointers. A number that does not fit
// becomes an invalid one.
func processor(proc int) int32 {
	if int(int32(proc)) != proc {
		return -1
	}
	return int32(proc)
}

// Cast returns p as a pointer to another type.
func Cast[U, T any](p Global[T]) Global[U] { return Global[U]{off: p.off, proc: p.proc} }

// ToLocal returns the local part of p as an address in this process (tolocal). p may point to any
// processor: ToLocal returns the memory at the same address in the heap of this process. The memory
// is that of the heap: other processes may change it at any time, and it is gone after Exit and
// AllSpreadFree.
func ToLocal[T any](w *World, p Global[T]) (*T, error) {
	if err := verifyLocal(w, "tolocal", p.On(w.me), 1); err != nil {
		return nil, err
	}
	return at[T](w.heap, p.off), nil
}

// ToLocalSlice is ToLocal for n elements.
func ToLocalSlice[T any](w *World, p Global[T], n int) ([]T, error) {
	if err := verifyLocal(w, "tolocal", p.On(w.me), n); err != nil {
		return nil, err
	}
	return localSlice[T](w, p.off, n), nil
}

// ToGlobal returns the pointer to the address lp on a processor (toglobal). lp must lie in this
// process's spread heap.
func ToGlobal[T any](w *World, proc int, lp *T) (Global[T], error) {
	off, ok := offsetOf(w.heap, lp)
	if !ok {
		return Global[T]{}, opError("toglobal", errOutside, "the address is not in this process's spread heap")
	}
	p := Global[T]{off: off, proc: processor(proc)}
	if err := verifyLocal(w, "toglobal", p, 1); err != nil {
		return Global[T]{}, err
	}
	return p, nil
}
