package splitc

import "context"

// Sync waits until all gets and puts of this process are complete (sync). The program may
// then also change the sources of its bulk stores; these may not have arrived yet. If ctx ends
// first, the operations are still in progress, and the program may call Sync again.
func (w *World) Sync(ctx context.Context) error {
	if err := w.ready("sync"); err != nil {
		return err
	}
	w.stats.Syncs++
	return w.sync(ctx, Waiting{What: "sync"})
}

// sync is Sync for a call of another name.
func (w *World) sync(ctx context.Context, call Waiting) error {
	return w.wait(ctx, call, w.synced)
}

func (w *World) synced() bool { return w.count.Outstanding == 0 && w.count.Sources == 0 }

// IsSync polls, and reports whether Sync would return at once (is_sync).
func (w *World) IsSync() (bool, error) {
	if err := w.Poll(); err != nil {
		return false, err
	}
	return w.synced(), nil
}

// StoreSync waits until the given number of bytes has been stored into this process's memory
// (store_sync). They may come from any process and go to any place. Bytes for which StoreSync or
// AllStoreSync has waited before do not count. If ctx ends first, the count stays as before. It
// fails with ErrNever when all other processes have called Exit and the bytes have not arrived.
func (w *World) StoreSync(ctx context.Context, bytes int) error {
	if err := w.ready("store_sync"); err != nil {
		return err
	}
	if bytes < 0 {
		return opError("store_sync", ErrArgument, "%d bytes", bytes)
	}
	w.stats.StoreSyncs++
	want := w.consumed + uint64(bytes)
	enough := func() bool { return w.received() >= want || w.all() }
	if err := w.wait(ctx, Waiting{What: "store_sync", Bytes: uint64(bytes)}, enough); err != nil {
		return err
	}
	if have := w.received(); have < want {
		return opError("store_sync", ErrNever, "%d bytes: %d have arrived, and all other processes have called Exit", bytes, have-w.consumed)
	}
	w.consumed = want
	return nil
}

// all reports whether everything that other processes will ever store here has arrived.
func (w *World) all() bool { return w.tree.left == w.procs-1 && w.count.Stored >= w.tree.owed }

// received returns how many bytes have been stored into this heap since the start.
func (w *World) received() uint64 { return w.stored + w.count.Stored }

// AllStoreSync returns when all stores of all processes before it are complete (all_store_sync).
// All processes must call it. The bytes count as waited for.
//
// The processes sum up how many bytes each of them still has to receive. If the sum is zero, they
// are done. Otherwise they wait for these bytes, and meet once more.
func (w *World) AllStoreSync(ctx context.Context) error {
	if err := w.ready("all_store_sync"); err != nil {
		return err
	}
	if err := w.Poll(); err != nil { // bytes that have arrived are not owed any more
		return err
	}
	want, err := w.owed(ctx)
	if err != nil {
		return err
	}
	complete := true
	for _, bytes := range w.owing {
		complete = complete && bytes == 0
	}
	if !complete {
		if err := w.wait(ctx, Waiting{What: "all_store_sync", Bytes: want - w.consumed}, func() bool { return w.received() >= want }); err != nil {
			return w.broken(err)
		}
	}
	w.consumed = max(w.consumed, want)
	if complete {
		return nil
	}
	return w.meet(ctx, call{code: codeAllStoreSync})
}

var addBytes = Add[uint64]()

// owed sets owing to the number of bytes that each process still has to receive, modulo 2^64. It
// returns the total that this process will then have received since the start. No process may store
// meanwhile.
func (w *World) owed(ctx context.Context) (want uint64, err error) {
	w.owing = append(w.owing[:0], w.sent...)
	have := uint64(0)
	err = reduceSlice(ctx, w, call{code: codeAllStoreSync}, w.owing, addBytes, func(lo int, part []uint64) {
		if lo <= w.me && w.me < lo+len(part) {
			have = w.received()
			part[w.me-lo] -= have
		}
	})
	return have + w.owing[w.me], err
}
