package splitc

import "context"

// Stride describes a strided transfer: Blocks blocks of Len elements each, which begin
// Local elements apart in this process's slice, and Remote elements apart at the global
// pointer. No block overlaps another one, here or there, or of the other side.
type Stride struct{ Blocks, Len, Local, Remote int }

// StridedGet starts to fill the blocks of dst, which is complete after Sync. Until then
// they stay untouched.
func StridedGet[T any](ctx context.Context, w *World, dst []T, p Global[T], s Stride) error {
	return stridedGet(ctx, w, "strided get", &w.stats.Gets, dst, p, s)
}

// StridedPut starts to copy the blocks of src, which is complete after Sync. Until then
// they stay untouched.
func StridedPut[T any](ctx context.Context, w *World, p Global[T], src []T, s Stride) error {
	return stridedPut(ctx, w, "strided put", &w.stats.Puts, p, src, s)
}

// StridedStore starts to store the blocks of src, as BulkStore does each.
func StridedStore[T any](ctx context.Context, w *World, p Global[T], src []T, s Stride) error {
	if err := checkStride(w, "strided store", p, src, s); err != nil {
		return err
	}
	for b := range s.Blocks {
		if err := BulkStore(ctx, w, p.Add(b*s.Remote), src[b*s.Local:][:s.Len]); err != nil {
			return err
		}
	}
	return nil
}

// StridedRead is a StridedGet and a Sync.
func StridedRead[T any](ctx context.Context, w *World, dst []T, p Global[T], s Stride) error {
	if err := stridedGet(ctx, w, "strided read", &w.stats.Reads, dst, p, s); err != nil {
		return err
	}
	return w.heard(w.sync(ctx, "strided read"))
}

// StridedWrite is a StridedPut and a Sync.
func StridedWrite[T any](ctx context.Context, w *World, p Global[T], src []T, s Stride) error {
	if err := stridedPut(ctx, w, "strided write", &w.stats.Writes, p, src, s); err != nil {
		return err
	}
	return w.heard(w.sync(ctx, "strided write"))
}

// stridedGet is StridedGet under the name call, whose blocks are counted in c.
func stridedGet[T any](ctx context.Context, w *World, call string, c *Count, dst []T, p Global[T], s Stride) error {
	if err := checkStride(w, call, p, dst, s); err != nil {
		return err
	}
	for b := range s.Blocks {
		if err := bulkGet(ctx, w, call, c, dst[b*s.Local:][:s.Len], p.Add(b*s.Remote)); err != nil {
			return err
		}
	}
	return nil
}

// stridedPut is StridedPut under the name call, whose blocks are counted in c.
func stridedPut[T any](ctx context.Context, w *World, call string, c *Count, p Global[T], src []T, s Stride) error {
	if err := checkStride(w, call, p, src, s); err != nil {
		return err
	}
	for b := range s.Blocks {
		if err := bulkPut(ctx, w, call, c, p.Add(b*s.Remote), src[b*s.Local:][:s.Len]); err != nil {
			return err
		}
	}
	return nil
}

// checkStride says what is wrong with a strided transfer, before any of it is done.
func checkStride[T any](w *World, call string, p Global[T], mem []T, s Stride) error {
	local := len(mem)
	if err := w.ready(call); err != nil {
		return err
	}
	if s.Blocks < 0 || s.Len < 0 || s.Local < 0 || s.Remote < 0 {
		return opError(call, ErrArgument, "%+v has a negative number", s)
	}
	if s.Blocks > 1 && (s.Local < s.Len || s.Remote < s.Len) {
		return opError(call, ErrOverlap, "%+v: the blocks overlap", s)
	}
	if s.Blocks == 0 || s.Len == 0 {
		return check(w, call, p, 0)
	}
	most := int(w.spans.size) // elements that there can be
	if s.Len > most || s.Blocks > 1 && s.Blocks-1 > (most-s.Len)/s.Remote {
		return opError(call, ErrOutside, "%+v does not fit into the heap", s)
	}
	if s.Len > local || s.Blocks > 1 && s.Blocks-1 > (local-s.Len)/s.Local {
		return opError(call, ErrArgument, "%+v does not fit into a slice of %d elements", s, local)
	}
	if err := check(w, call, p, (s.Blocks-1)*s.Remote+s.Len); err != nil {
		return err
	}
	if off, own := offsetOf(w.heap, &mem[0]); own && int(p.proc) == w.me && s.meet(off, p.off, size[T]()) {
		return opError(call, ErrOverlap, "%+v: source and destination share memory", s)
	}
	return nil
}

// meet reports whether a block of those that begin at an offset of the heap shares a byte with
// one of those of the other side, which begin at another offset. Both are in the order of
// offsets. An element has so many bytes.
func (s Stride) meet(local, remote, bytes uint64) bool {
	n := uint64(s.Len) * bytes
	for i, j := 0, 0; i < s.Blocks && j < s.Blocks; {
		a, b := local+uint64(i*s.Local)*bytes, remote+uint64(j*s.Remote)*bytes
		switch {
		case a+n <= b:
			i++
		case b+n <= a:
			j++
		default:
			return true
		}
	}
	return false
}
