package splitc

import "context"

// Broadcast returns process root's value in all processes (all_bcast).
func Broadcast[T any](ctx context.Context, w *World, root int, v T) (T, error) {
	s := []T{v}
	err := broadcast(ctx, w, codeBroadcast, root, s)
	return s[0], err
}

// BroadcastSlice fills s in all processes with what process root has in it. s is of
// equal length in all of them.
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

// broadcastShort sends up what the root has, and down to everybody.
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

// staged moves total bytes through the scratch memory, most of them at a time: first all
// processes put theirs there by fill, then they fetch what they need.
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
		if err := w.sync(ctx, callNames[c.code]); err != nil {
			return w.broken(err)
		}
		if err := w.meet(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// fetch starts to read from any heap, this process's included.
func (w *World) fetch(ctx context.Context, proc int, dst []byte, off uint64) error {
	if m := w.direct[proc]; m != nil {
		copy(dst, m[off:])
		return nil
	}
	return w.heard(w.layer.Get(ctx, proc, dst, off))
}
