package splitc

import "context"

// ReduceToAll returns the values of all processes, combined by op in their order
// (all_reduce_to_all_add and so on).
func ReduceToAll[T any](ctx context.Context, w *World, v T, op Op[T]) (T, error) {
	s := []T{v}
	err := reduce(ctx, w, call{code: codeReduce, op: op.id}, s, op)
	return s[0], err
}

// ReduceToOne is ReduceToAll for process root; the others get the zero value
// (all_reduce_to_one_add and so on).
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

// ReduceSliceToAll is ReduceToAll for each element of s, in place. s is of equal length
// in all processes.
func ReduceSliceToAll[T any](ctx context.Context, w *World, s []T, op Op[T]) error {
	return reduce(ctx, w, call{code: codeReduceSlice, op: op.id}, s, op)
}

// reduce checks the arguments of a reduction, and does it.
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

// checkPart says why a T cannot be a part of a control message.
func checkPart[T any](call string) error {
	if err := checkType[T](); err != nil {
		return opError(call, err, "it cannot be sent")
	}
	if size[T]() > maxPart-1 {
		return opError(call, ErrType, "it has %d bytes, and may have %d here", size[T](), maxPart-1)
	}
	return nil
}

// reduceSlice reduces s in place, as many elements at a time as a message has room for. If
// last is not nil it may change a part of s, which begins at element lo, when the values of
// the processes below this one are in it, before the process above has it.
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

// reducePart reduces what fits into one message.
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
