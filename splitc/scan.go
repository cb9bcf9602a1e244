package splitc

import "context"

// Scan returns the values of processes 0 to this one, combined by op (all_scan_add and
// so on): the inclusive prefix.
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

// segment is a value of a segmented scan, and whether a segment begins with it.
type segment[T any] struct {
	v     T
	start bool
}

// SegmentedScan is Scan within segments of processes: those for which start is true
// begin one. Process 0 does in any case.
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

// optional is a value, or none, as scans send it.
type optional[T any] struct {
	v   T
	has bool
}

// scan returns the values before this process, if there are any, and those up to it.
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
	ahead := make([]T, len(w.tree.kids)) // for each child, what comes before it from this process on
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
