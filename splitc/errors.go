package splitc

import (
	"errors"
	"fmt"
	"math/bits"
	"strings"

	"github.com/bobnet-go/bobnet/internal/errclass"
	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/splitc/internal/layer"
	"github.com/bobnet-go/bobnet/transport"
)

// Error classes for errors.Is. Errors wrap these, with the operation and the cause. An operation
// that fails with ErrArgument has changed nothing.
var (
	// ErrArgument is the class of the errors of misuse: an argument out of range, a processor
	// that does not exist, a null or unaligned pointer, an address outside of allocated memory, a
	// type with pointers, memory that overlaps.
	ErrArgument = errclass.New(transport.ErrArgument, "splitc: invalid argument")
	ErrMemory   = errors.New("splitc: the spread heap is full")
	// ErrInAtomic means that an atomic procedure has communicated, which is not allowed.
	ErrInAtomic = errors.New("splitc: an atomic procedure must not communicate")
	// ErrAtomic is the class of every AtomicError.
	ErrAtomic = errors.New("splitc: the atomic procedure failed")
	// ErrNever means that a call waits for stores that no process will make.
	ErrNever = errors.New("splitc: the awaited stores will never arrive")
	// ErrClosed means that the program has ended by Exit or Fail.
	ErrClosed = errclass.New(transport.ErrClosed, "splitc: the program has ended")
	// ErrUnequal means that the ranks of a program have different layers, heaps, variables,
	// procedures, or versions of this package.
	ErrUnequal = layer.ErrUnequal
	// ErrMismatch is the class of every MismatchError.
	ErrMismatch = errors.New("splitc: the ranks are in different collectives")
	// ErrWaited means that a wait has lasted longer than Config.WaitTimeout.
	ErrWaited = layer.ErrWaited
	// ErrRankFailed is the class of every job.RankError.
	ErrRankFailed = job.ErrRankFailed
)

// The kinds of misuse.
var (
	errProcessor = errclass.New(ErrArgument, "splitc: no such processor")
	errNull      = errclass.New(ErrArgument, "splitc: null pointer")
	errOutside   = errclass.New(ErrArgument, "splitc: outside the allocated part of the spread heap")
	errFreed     = errclass.New(ErrArgument, "splitc: memory that is not, or no longer, allocated")
	errUnaligned = errclass.New(ErrArgument, "splitc: unaligned pointer")
	errType      = errclass.New(ErrArgument, "splitc: not a type of fixed size without pointers")
	errOverlap   = errclass.New(ErrArgument, "splitc: overlapping memory")
)

// MismatchError means that two ranks are in different collectives, or in one with different
// arguments. It ends the program for all ranks, and all ranks report the same two.
type MismatchError struct {
	Ranks [2]int
	Calls [2]string // the call of each of them
}

func (e *MismatchError) Error() string {
	return fmt.Sprintf("%v: rank %d is in %s, rank %d in %s: all ranks must call the same collectives in the same order",
		ErrMismatch, e.Ranks[0], e.Calls[0], e.Ranks[1], e.Calls[1])
}

// Unwrap returns ErrMismatch.
func (e *MismatchError) Unwrap() error { return ErrMismatch }

// inStart reports whether the ranks differ in their start.
func (e *MismatchError) inStart() bool {
	start := func(text string) bool { return strings.HasPrefix(text, callNames[codeStart]+" (") }
	return start(e.Calls[0]) || start(e.Calls[1])
}

// AtomicError means that an atomic procedure failed at its owner.
type AtomicError struct {
	Procedure string
	Proc      int    // the owner
	Text      string // the owner's reason
	sent      bool   // the procedure has communicated
}

func (e *AtomicError) Error() string {
	return fmt.Sprintf("%v: %q at processor %d: %s", ErrAtomic, e.Procedure, e.Proc, e.Text)
}

// Unwrap returns ErrAtomic, and ErrInAtomic if the procedure has communicated.
func (e *AtomicError) Unwrap() []error {
	if e.sent {
		return []error{ErrAtomic, ErrInAtomic}
	}
	return []error{ErrAtomic}
}

// opError returns an error with the call and the cause.
func opError(call string, class error, format string, args ...any) error {
	return fmt.Errorf("%w: %s: %s", class, call, fmt.Sprintf(format, args...))
}

// check returns an error if n elements at p are not valid: the state of the world, the type, the
// processor, or the address.
func check[T any](w *World, call string, p Global[T], n int) error {
	if w.stop != nil {
		return w.stopped(call)
	}
	return verify(w, call, p, n)
}

// verify is check without the state of the world.
func verify[T any](w *World, call string, p Global[T], n int) error {
	if key := keyOf[T](); key != w.fit {
		if err := checkType[T](); err != nil {
			return opError(call, err, "it cannot be in a spread heap")
		}
		w.fit = key
	}
	if uint(p.proc) >= uint(w.procs) {
		return opError(call, errProcessor, "the pointer is to processor %d of %d", p.proc, w.procs)
	}
	over, bytes := bits.Mul64(uint64(n), size[T]())
	if over != 0 || uint64(n) > w.spans.size {
		if n < 0 {
			return opError(call, ErrArgument, "%d elements", n)
		}
		return opError(call, errOutside, "%d elements of %d bytes do not fit into a heap of %d bytes", n, size[T](), w.spans.size)
	}
	if p.off%align[T]() != 0 {
		return opError(call, errUnaligned, "address %#x is not a multiple of %d", p.off, align[T]())
	}
	return w.spans.check(call, p.off, bytes)
}

// verifyLocal is verify for this rank's own memory. Atomic procedures use it, too.
func verifyLocal[T any](w *World, call string, p Global[T], n int) error {
	if w.stop == ErrClosed {
		return w.stopped(call)
	}
	return verify(w, call, p, n)
}

// ready returns an error if the world cannot serve a call.
func (w *World) ready(call string) error {
	if w.stop != nil {
		return w.stopped(call)
	}
	return nil
}

// stopped returns the error of a call in a world that is not ready.
func (w *World) stopped(call string) error {
	if w.stop == ErrInAtomic {
		w.atomics.sent = true
	}
	if w.stop == ErrInAtomic || w.stop == ErrClosed {
		return opError(call, w.stop, "nothing is done")
	}
	return w.stop
}

// checkRoot returns an error if the processor that a call names does not exist.
func (w *World) checkRoot(call string, proc int) error {
	if err := w.ready(call); err != nil {
		return err
	}
	if proc < 0 || proc >= w.procs {
		return opError(call, errProcessor, "processor %d of %d", proc, w.procs)
	}
	return nil
}
