package splitc

import (
	"context"
	"fmt"
	"reflect"

	"github.com/bobnet-go/bobnet/splitc/internal/layer"
)

// maxAtomic is the most bytes of the argument, and of the result, of an atomic procedure.
const maxAtomic = 192

// Procedure is an atomic procedure: a function that runs at the owner of the data that it uses.
type Procedure[A, R any] struct{ p *procedure }

// Atomic registers a procedure under a name (atomic). Programs call it for package-level variables,
// like Static. f runs in the process that Call names, while that process is in Poll or in a call of
// this package that may wait. No two procedures run there at the same time. w is that process's
// world. f may access its memory with ToLocal, ToLocalSlice and Variable.Local, and must neither
// communicate nor block. It may call w.Fail.
func Atomic[A, R any](name string, f func(w *World, arg A) R) *Procedure[A, R] {
	p := &procedure{name: name, args: int(size[A]()), result: int(size[R]())}
	p.kind = reflect.TypeFor[A]().String() + " " + reflect.TypeFor[R]().String()
	p.run = func(w *World, args, result []byte) {
		var a A
		copy(bytesOf(&a), args)
		r := f(w, a)
		copy(result, bytesOf(&r))
	}
	var err error
	for _, t := range []reflect.Type{reflect.TypeFor[A](), reflect.TypeFor[R]()} {
		if why := pointers(t); why != "" {
			err = opError("start", errType, "atomic procedure %q: %v has %s", name, t, why)
		} else if t.Size() > maxAtomic {
			err = opError("start", errType, "atomic procedure %q: %v has %d bytes (at most %d)", name, t, t.Size(), maxAtomic)
		}
	}
	register(&registry.procedures, name, p, err)
	return &Procedure[A, R]{p}
}

// Call runs the procedure at processor proc, and returns its result. The error is an *AtomicError
// if the procedure panics or communicates there.
func (f *Procedure[A, R]) Call(ctx context.Context, w *World, proc int, arg A) (r R, err error) {
	if err := w.checkRoot("atomic", proc); err != nil {
		return r, err
	}
	fn, ok := w.layout.numbers[f.p]
	if !ok {
		return r, opError("atomic", ErrArgument, "%q was registered after Start", f.p.name)
	}
	w.stats.Atomics++
	a, b := &w.atomics, w.atomics.result
	n := copy(a.args[:], bytesOf(&arg))
	if proc == w.me {
		w.runAtomic(fn, a.args[:n], b[:])
	} else {
		err = w.layer.Call(ctx, proc, fn, a.args[:n], b[:])
		if err == nil {
			err = w.sync(ctx, of("atomic", proc))
		}
		if err != nil { // the result may arrive later
			a.result = new([layer.MaxCall]byte)
			return r, w.heard(err)
		}
	}
	if b[0] != atomicDone {
		return r, w.atomicError(f.p.name, proc, b)
	}
	copy(bytesOf(&r), b[atomicHead:])
	return r, nil
}

// atomics is the state of calls of atomic procedures.
type atomics struct {
	args   [layer.MaxCall]byte
	result *[layer.MaxCall]byte
	sent   bool  // the running procedure has tried to communicate
	failed error // argument of its call of Fail
}

// The first byte of a result is how the procedure ended. If it did not return, the length of a text
// and the text follow.
const (
	atomicDone = 1 + iota
	atomicFailed
	atomicSent
	atomicHead = 8
)

// atomicError returns the error that a result without a value stands for.
func (w *World) atomicError(name string, proc int, b *[layer.MaxCall]byte) error {
	text := printable(b[2:][:min(int(b[1]), len(b)-2)])
	return &AtomicError{Procedure: name, Proc: proc, Text: text, sent: b[0] == atomicSent}
}

// runAtomic runs a procedure for another rank. The request may be invalid.
func (w *World) runAtomic(fn uint32, args, result []byte) (n int) {
	w.stats.Served++
	if uint64(fn) >= uint64(len(w.layout.procedures)) || len(args) != w.layout.procedures[fn].args {
		return atomicText(result, atomicFailed, "unknown procedure")
	}
	if w.stop != nil {
		return atomicText(result, atomicFailed, "the process is ending: "+w.stop.Error())
	}
	p := w.layout.procedures[fn]
	w.stop, w.atomics.sent, w.atomics.failed = ErrInAtomic, false, nil
	defer func() {
		if w.stop == ErrInAtomic {
			w.stop = w.atomics.failed
		}
		if e := recover(); e != nil {
			n = atomicText(result, atomicFailed, "it panics: "+fmt.Sprint(e))
		}
		if w.stop != nil {
			w.showsFailure()
			n = atomicText(result, atomicFailed, "the process is ending: "+w.stop.Error())
		}
	}()
	clear(result[:atomicHead])
	p.run(w, args, result[atomicHead:])
	if w.atomics.sent {
		return atomicText(result, atomicSent, "it communicated or called another atomic procedure")
	}
	result[0] = atomicDone
	return atomicHead + p.result
}

// atomicText stores a result without a value, with the reason.
func atomicText(result []byte, kind byte, text string) int {
	n := copy(result[2:min(len(result), 2+180)], text)
	result[0], result[1] = kind, byte(n)
	return 2 + n
}

// fetchAdd is the procedure of FetchAdd.
var fetchAdd = Atomic("splitc.FetchAdd", func(w *World, a fetchAddArg) fetchAddResult {
	p, err := ToLocal(w, Global[int64]{off: a.off})
	if err != nil {
		return fetchAddResult{}
	}
	old := *p
	*p += a.delta
	return fetchAddResult{old, true}
})

type fetchAddArg struct {
	off   uint64
	delta int64
}

type fetchAddResult struct {
	old int64
	ok  bool
}

// FetchAdd adds delta to the value that p points to, with an atomic procedure at its owner, and
// returns the previous value.
func FetchAdd(ctx context.Context, w *World, p Global[int64], delta int64) (int64, error) {
	if err := check(w, "fetch_add", p, 1); err != nil {
		return 0, err
	}
	r, err := fetchAdd.Call(ctx, w, p.Proc(), fetchAddArg{p.off, delta})
	if err == nil && !r.ok {
		err = opError("fetch_add", errFreed, "address %#x is not allocated at processor %d", p.off, p.proc)
	}
	return r.old, err
}
