package splitc

import "context"

// Read returns the value that p points to (x = *p). It is Get followed by Sync.
func Read[T any](ctx context.Context, w *World, p Global[T]) (v T, err error) {
	if err := check(w, "read", p, 1); err != nil {
		return v, err
	}
	w.stats.Reads.add(size[T]())
	if m := w.direct[p.proc]; m != nil {
		if int(p.proc) != w.me {
			err = w.near()
		}
		return *at[T](m, p.off), err
	}
	dst := landing[T](w)
	err = w.layer.Get(ctx, int(p.proc), bytesOf(dst), p.off)
	if err == nil {
		err = w.sync(ctx, of("read", p.Proc()))
	}
	if err != nil { // the value may arrive later
		w.landing = new([len(w.small)]uint64)
		return v, w.heard(err)
	}
	return *dst, nil
}

// Write stores v at p, and returns when the store is complete (*p = x). It is Put followed by Sync.
func Write[T any](ctx context.Context, w *World, p Global[T], v T) error {
	if err := check(w, "write", p, 1); err != nil {
		return err
	}
	w.stats.Writes.add(size[T]())
	if m := w.direct[p.proc]; m != nil {
		*at[T](m, p.off) = v
		if int(p.proc) != w.me {
			return w.near()
		}
		return nil
	}
	err := w.layer.Put(ctx, int(p.proc), p.off, held(w, v))
	if err == nil {
		err = w.sync(ctx, of("write", p.Proc()))
	}
	return w.heard(err)
}

// Get starts to read the value at p into dst, which is valid after Sync (x := *p). The program must
// not access dst before Sync.
func Get[T any](ctx context.Context, w *World, dst *T, p Global[T]) error {
	if err := check(w, "get", p, 1); err != nil {
		return err
	}
	w.stats.Gets.add(size[T]())
	if m := w.direct[p.proc]; m != nil {
		*dst = *at[T](m, p.off)
		return nil
	}
	return w.heard(w.layer.Get(ctx, int(p.proc), bytesOf(dst), p.off))
}

// Put starts to store v at p, which is complete after Sync (*p := x).
func Put[T any](ctx context.Context, w *World, p Global[T], v T) error {
	if err := check(w, "put", p, 1); err != nil {
		return err
	}
	w.stats.Puts.add(size[T]())
	if m := w.direct[p.proc]; m != nil {
		*at[T](m, p.off) = v
		return nil
	}
	return w.heard(w.layer.Put(ctx, int(p.proc), p.off, held(w, v)))
}

// Store starts to store v at p (*p :- x). The process that p points to waits for the data with
// StoreSync or AllStoreSync. This process gets no notification.
func Store[T any](ctx context.Context, w *World, p Global[T], v T) error {
	if err := check(w, "store", p, 1); err != nil {
		return err
	}
	n := size[T]()
	w.stats.Stores.add(n)
	if int(p.proc) == w.me {
		*at[T](w.heap, p.off) = v
		w.stored += n
		w.sent[p.proc] += n
		return nil
	}
	err := w.layer.Store(ctx, int(p.proc), p.off, held(w, v))
	return w.storing(int(p.proc), n, err)
}

// storing ends a call that has stored bytes at another process, unless err is not nil.
func (w *World) storing(proc int, bytes uint64, err error) error {
	if err != nil {
		return w.heard(err)
	}
	w.sent[proc] += bytes
	if w.direct[proc] != nil {
		return w.near()
	}
	return w.heard(nil)
}

// BulkRead fills dst from p on (bulk_read). It is BulkGet followed by Sync.
func BulkRead[T any](ctx context.Context, w *World, dst []T, p Global[T]) error {
	if err := bulkGet(ctx, w, "bulk_read", &w.stats.Reads, dst, p); err != nil {
		return err
	}
	return w.heard(w.sync(ctx, of("bulk_read", p.Proc())))
}

// BulkWrite copies src to the memory at p, and returns when the copy is complete (bulk_write). It
// is BulkPut followed by Sync.
func BulkWrite[T any](ctx context.Context, w *World, p Global[T], src []T) error {
	if err := bulkPut(ctx, w, "bulk_write", &w.stats.Writes, p, src); err != nil {
		return err
	}
	return w.heard(w.sync(ctx, of("bulk_write", p.Proc())))
}

// BulkGet starts to fill dst from p on, which is complete after Sync (bulk_get). The program must
// not access dst before Sync.
func BulkGet[T any](ctx context.Context, w *World, dst []T, p Global[T]) error {
	return bulkGet(ctx, w, "bulk_get", &w.stats.Gets, dst, p)
}

// BulkPut starts to copy src to the memory at p, which is complete after Sync (bulk_put). The
// program must not change src before Sync.
func BulkPut[T any](ctx context.Context, w *World, p Global[T], src []T) error {
	return bulkPut(ctx, w, "bulk_put", &w.stats.Puts, p, src)
}

// BulkStore starts to copy src to the memory at p (bulk_store). The process that p points to waits
// for the data with StoreSync or AllStoreSync. The program must not change src before Sync. Sync
// does not mean that the data have arrived.
func BulkStore[T any](ctx context.Context, w *World, p Global[T], src []T) error {
	if err := check(w, "bulk_store", p, len(src)); err != nil {
		return err
	}
	data := bytesOfSlice(src)
	if int(p.proc) != w.me {
		w.stats.Stores.add(uint64(len(data)))
		if len(data) == 0 {
			return nil
		}
		err := w.layer.Store(ctx, int(p.proc), p.off, data)
		return w.storing(int(p.proc), uint64(len(data)), err)
	}
	to := w.heap[p.off:][:len(data)]
	if overlap(to, data) {
		return opError("bulk_store", errOverlap, "source and destination share memory")
	}
	w.stats.Stores.add(uint64(len(data)))
	n := uint64(copy(to, data))
	w.stored += n
	w.sent[p.proc] += n
	return nil
}

// bulkGet is BulkGet for the call named call, counted in c.
func bulkGet[T any](ctx context.Context, w *World, call string, c *Count, dst []T, p Global[T]) error {
	if err := check(w, call, p, len(dst)); err != nil {
		return err
	}
	data := bytesOfSlice(dst)
	m := w.direct[p.proc]
	if m != nil && overlap(m[p.off:][:len(data)], data) {
		return opError(call, errOverlap, "source and destination share memory")
	}
	c.add(uint64(len(data)))
	switch {
	case len(data) == 0:
		return nil
	case m != nil:
		copy(data, m[p.off:])
		return nil
	}
	return w.heard(w.layer.Get(ctx, int(p.proc), data, p.off))
}

// bulkPut is BulkPut for the call named call, counted in c.
func bulkPut[T any](ctx context.Context, w *World, call string, c *Count, p Global[T], src []T) error {
	if err := check(w, call, p, len(src)); err != nil {
		return err
	}
	data := bytesOfSlice(src)
	m := w.direct[p.proc]
	if m != nil && overlap(m[p.off:][:len(data)], data) {
		return opError(call, errOverlap, "source and destination share memory")
	}
	c.add(uint64(len(data)))
	switch {
	case len(data) == 0:
		return nil
	case m != nil:
		copy(m[p.off:], data)
		return nil
	}
	return w.heard(w.layer.Put(ctx, int(p.proc), p.off, data))
}

// Stride describes a strided transfer of Blocks blocks of Len elements each. The blocks begin Local
// elements apart in this process's slice, and Remote elements apart at the global pointer. Blocks
// must not overlap, neither on one side nor across both.
type Stride struct{ Blocks, Len, Local, Remote int }

// StridedGet starts to fill the blocks of dst, which is complete after Sync. The program must not
// access the blocks before Sync.
func StridedGet[T any](ctx context.Context, w *World, dst []T, p Global[T], s Stride) error {
	return stridedGet(ctx, w, "strided get", &w.stats.Gets, dst, p, s)
}

// StridedPut starts to copy the blocks of src, which is complete after Sync. The program must not
// change the blocks before Sync.
func StridedPut[T any](ctx context.Context, w *World, p Global[T], src []T, s Stride) error {
	return stridedPut(ctx, w, "strided put", &w.stats.Puts, p, src, s)
}

// StridedStore starts to store the blocks of src, each as BulkStore does.
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

// StridedRead is StridedGet followed by Sync.
func StridedRead[T any](ctx context.Context, w *World, dst []T, p Global[T], s Stride) error {
	if err := stridedGet(ctx, w, "strided read", &w.stats.Reads, dst, p, s); err != nil {
		return err
	}
	return w.heard(w.sync(ctx, of("strided read", p.Proc())))
}

// StridedWrite is StridedPut followed by Sync.
func StridedWrite[T any](ctx context.Context, w *World, p Global[T], src []T, s Stride) error {
	if err := stridedPut(ctx, w, "strided write", &w.stats.Writes, p, src, s); err != nil {
		return err
	}
	return w.heard(w.sync(ctx, of("strided write", p.Proc())))
}

// stridedGet is StridedGet for the call named call, with its blocks counted in c.
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

// stridedPut is StridedPut for the call named call, with its blocks counted in c.
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

// checkStride returns an error if a strided transfer is invalid, before any of it is performed.
func checkStride[T any](w *World, call string, p Global[T], mem []T, s Stride) error {
	local := len(mem)
	if err := w.ready(call); err != nil {
		return err
	}
	if s.Blocks < 0 || s.Len < 0 || s.Local < 0 || s.Remote < 0 {
		return opError(call, ErrArgument, "%+v has a negative number", s)
	}
	if s.Blocks > 1 && (s.Local < s.Len || s.Remote < s.Len) {
		return opError(call, errOverlap, "%+v: the blocks overlap", s)
	}
	if s.Blocks == 0 || s.Len == 0 {
		return check(w, call, p, 0)
	}
	most := int(w.spans.size) // upper bound of the number of elements
	if s.Len > most || s.Blocks > 1 && s.Blocks-1 > (most-s.Len)/s.Remote {
		return opError(call, errOutside, "%+v does not fit into the heap", s)
	}
	if s.Len > local || s.Blocks > 1 && s.Blocks-1 > (local-s.Len)/s.Local {
		return opError(call, ErrArgument, "%+v does not fit into a slice of %d elements", s, local)
	}
	if err := check(w, call, p, (s.Blocks-1)*s.Remote+s.Len); err != nil {
		return err
	}
	if off, own := offsetOf(w.heap, &mem[0]); own && int(p.proc) == w.me && s.meet(off, p.off, size[T]()) {
		return opError(call, errOverlap, "%+v: source and destination share memory", s)
	}
	return nil
}

// meet reports whether a block that begins at offset local of the heap or later shares a byte with
// a block of the other side, which begin at remote. Both are in the order of offsets. An element
// has the given number of bytes.
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
