package splitc

import "context"

// Read returns the value that p points to (x = *p). It is a Get and a Sync.
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
		err = w.sync(ctx, "read")
	}
	if err != nil { // the value may come later
		w.landing = new([len(w.small)]uint64)
		return v, w.heard(err)
	}
	return *dst, nil
}

// Write changes what p points to, and returns when it is changed (*p = x). It is a Put
// and a Sync.
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
		err = w.sync(ctx, "write")
	}
	return w.heard(err)
}

// Get starts to read what p points to into dst, which has it after Sync (x := *p). Until
// then dst stays untouched.
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

// Put starts to change what p points to, which is complete after Sync (*p := x).
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

// Store starts to change what p points to (*p :- x). The process that p points to learns
// of it by StoreSync or AllStoreSync; this one does not.
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

// storing ends a call that has stored so many bytes at another process, unless err is why it
// has not.
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
