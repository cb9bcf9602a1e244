package splitc

import "context"

// Gather collects the slices of all processes in dst of process root, in the order of
// processes (all_gather). dst has room for Procs() times as many elements as src there,
// and is not used elsewhere. src is of equal length in all processes.
func Gather[T any](ctx context.Context, w *World, root int, src, dst []T) error {
	if err := w.checkRoot("gather", root); err != nil {
		return err
	}
	return gather(ctx, w, call{code: codeGather, root: uint16(root)}, w.me == root, src, dst)
}

// AllGather is Gather for all processes.
func AllGather[T any](ctx context.Context, w *World, src, dst []T) error {
	if err := w.ready("gather"); err != nil {
		return err
	}
	return gather(ctx, w, call{code: codeAllGather}, true, src, dst)
}

func gather[T any](ctx context.Context, w *World, c call, wanted bool, src, dst []T) error {
	if err := checkType[T](); err != nil {
		return opError("gather", err, "it cannot be sent")
	}
	if wanted && len(dst) != w.procs*len(src) {
		return opError("gather", ErrArgument, "the destination has %d elements, want %d for each of %d processes", len(dst), len(src), w.procs)
	}
	mine, all := bytesOfSlice(src), bytesOfSlice(dst)
	c.size = uint64(len(mine))
	return w.staged(ctx, c, len(mine), scratchSize, func(at, n int) error {
		copy(w.heap[scratch:], mine[at:at+n])
		return nil
	}, func(at, n int) error {
		for i := 0; wanted && n > 0 && i < w.procs; i++ {
			proc := (w.me + i) % w.procs // not all from the same one at the same time
			if err := w.fetch(ctx, proc, all[proc*len(mine)+at:][:n], scratch); err != nil {
				return err
			}
		}
		return nil
	})
}

// Scatter fills dst in each process with its part of src of process root: the first
// len(dst) elements for process 0, and so on (all_scatter). src has Procs() times as
// many elements as dst there, and is not used elsewhere. dst is of equal length in all
// processes.
func Scatter[T any](ctx context.Context, w *World, root int, src, dst []T) error {
	if err := w.checkRoot("scatter", root); err != nil {
		return err
	}
	if err := checkType[T](); err != nil {
		return opError("scatter", err, "it cannot be sent")
	}
	if w.me == root && len(src) != w.procs*len(dst) {
		return opError("scatter", ErrArgument, "the source has %d elements, want %d for each of %d processes", len(src), len(dst), w.procs)
	}
	mine, all := bytesOfSlice(dst), bytesOfSlice(src)
	c := call{code: codeScatter, root: uint16(root), size: uint64(len(mine))}
	most := scratchSize / w.procs
	return w.staged(ctx, c, len(mine), most, func(at, n int) error {
		for proc := 0; w.me == root && proc < w.procs; proc++ {
			copy(w.heap[scratch+proc*most:], all[proc*len(mine)+at:][:n])
		}
		return nil
	}, func(at, n int) error {
		if n == 0 {
			return nil
		}
		return w.fetch(ctx, root, mine[at:at+n], uint64(scratch+w.me*most))
	})
}
