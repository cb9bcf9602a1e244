package splitc

import "math/bits"

// check says what is wrong with n elements at p: the world, the type, the processor, or
// the address.
func check[T any](w *World, call string, p Global[T], n int) error {
	if w.stop != nil {
		return w.stopped(call)
	}
	return verify(w, call, p, n)
}

// verify is check without a look at whether the world may communicate.
func verify[T any](w *World, call string, p Global[T], n int) error {
	if key := keyOf[T](); key != w.fit {
		if err := checkType[T](); err != nil {
			return opError(call, err, "it cannot be in a spread heap")
		}
		w.fit = key
	}
	if uint(p.proc) >= uint(w.procs) {
		return opError(call, ErrProcessor, "the pointer is to processor %d, and there are %d", p.proc, w.procs)
	}
	over, bytes := bits.Mul64(uint64(n), size[T]())
	if over != 0 || uint64(n) > w.spans.size {
		if n < 0 {
			return opError(call, ErrArgument, "%d elements", n)
		}
		return opError(call, ErrOutside, "%d elements of %d bytes do not fit into a heap of %d bytes", n, size[T](), w.spans.size)
	}
	if p.off%align[T]() != 0 {
		return opError(call, ErrUnaligned, "address %#x is no multiple of %d", p.off, align[T]())
	}
	return w.spans.check(call, p.off, bytes)
}

// verifyLocal is verify for this rank's own memory, which atomic procedures use, too.
func verifyLocal[T any](w *World, call string, p Global[T], n int) error {
	if w.stop == ErrClosed {
		return w.stopped(call)
	}
	return verify(w, call, p, n)
}

// ready says why the world serves no call.
func (w *World) ready(call string) error {
	if w.stop != nil {
		return w.stopped(call)
	}
	return nil
}

// stopped returns why the world, which is not ready, serves no call.
func (w *World) stopped(call string) error {
	if w.stop == ErrInAtomic {
		w.atomics.sent = true
	}
	if w.stop == ErrInAtomic || w.stop == ErrClosed {
		return opError(call, w.stop, "nothing is done")
	}
	return w.stop
}

// checkRoot says what is wrong with the processor that a call names.
func (w *World) checkRoot(call string, proc int) error {
	if err := w.ready(call); err != nil {
		return err
	}
	if proc < 0 || proc >= w.procs {
		return opError(call, ErrProcessor, "processor %d, and there are %d", proc, w.procs)
	}
	return nil
}
