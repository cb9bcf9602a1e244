package splitc

import "context"

// BulkRead fills dst from p on (bulk_read). It is a BulkGet and a Sync.
func BulkRead[T any](ctx context.Context, w *World, dst []T, p Global[T]) error {
	if err := bulkGet(ctx, w, "bulk_read", &w.stats.Reads, dst, p); err != nil {
		return err
	}
	return w.heard(w.sync(ctx, "bulk_read"))
}

// BulkWrite copies src to p and on, and returns when it is there (bulk_write). It is a
// BulkPut and a Sync.
func BulkWrite[T any](ctx context.Context, w *World, p Global[T], src []T) error {
	if err := bulkPut(ctx, w, "bulk_write", &w.stats.Writes, p, src); err != nil {
		return err
	}
	return w.heard(w.sync(ctx, "bulk_write"))
}

// BulkGet starts to fill dst from p on, which is complete after Sync (bulk_get). Until
// then dst stays untouched.
func BulkGet[T any](ctx context.Context, w *World, dst []T, p Global[T]) error {
	return bulkGet(ctx, w, "bulk_get", &w.stats.Gets, dst, p)
}

// BulkPut starts to copy src to p and on, which is complete after Sync (bulk_put). Until
// then src stays untouched.
func BulkPut[T any](ctx context.Context, w *World, p Global[T], src []T) error {
	return bulkPut(ctx, w, "bulk_put", &w.stats.Puts, p, src)
}

// BulkStore starts to copy src to p and on (bulk_store). The process that p points to
// learns of it by StoreSync or AllStoreSync. src stays untouched until Sync, by which
// this process learns that it may be changed, and not that the data are there.
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
		return opError("bulk_store", ErrOverlap, "source and destination share memory")
	}
	w.stats.Stores.add(uint64(len(data)))
	n := uint64(copy(to, data))
	w.stored += n
	w.sent[p.proc] += n
	return nil
}

// bulkGet is BulkGet under the name call, counted in c.
func bulkGet[T any](ctx context.Context, w *World, call string, c *Count, dst []T, p Global[T]) error {
	if err := check(w, call, p, len(dst)); err != nil {
		return err
	}
	data := bytesOfSlice(dst)
	m := w.direct[p.proc]
	if m != nil && overlap(m[p.off:][:len(data)], data) {
		return opError(call, ErrOverlap, "source and destination share memory")
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

// bulkPut is BulkPut under the name call, counted in c.
func bulkPut[T any](ctx context.Context, w *World, call string, c *Count, p Global[T], src []T) error {
	if err := check(w, call, p, len(src)); err != nil {
		return err
	}
	data := bytesOfSlice(src)
	m := w.direct[p.proc]
	if m != nil && overlap(m[p.off:][:len(data)], data) {
		return opError(call, ErrOverlap, "source and destination share memory")
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
