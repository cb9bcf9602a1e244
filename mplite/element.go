package mplite

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math/bits"
	"reflect"
	"sync"
)

// element describes a type whose values are elements of messages: their size, the types that match,
// and the parts to swap between byte orders.
type element struct {
	sig  uint32 // signature: what a receive compares with the sender's
	size int    // bytes of an element, padding included
	unit int    // bytes of a unit that swap reverses; 0 if runs define the units
	runs []run  // the numbers of a struct, in order of offset
	err  error  // why the type cannot be an element
}

// run is a sequence of numbers of one kind in a struct.
type run struct {
	offset, count int
	sig           uint32 // of the numbers
	unit          int
}

// Signatures. A message carries its sender's signature. 0 means raw bytes and matches everything.
// The signature of a number is its class and its size in bytes. The signature of a struct is a hash
// of all its runs, with sigStruct set.
const (
	sigRaw    uint32 = 0
	sigStruct uint32 = 1 << 31

	classSigned   = 1 << 8
	classUnsigned = 2 << 8
	classFloat    = 3 << 8
	classComplex  = 4 << 8
	classBool     = 5 << 8
	classMask     = 0xff << 8

	sigByte = classUnsigned | 1 // of bytes in a struct
)

// rawBytes is the element of the []byte methods.
var rawBytes = &element{sig: sigRaw, size: 1, unit: 1}

// numbers has the element of each numeric kind; others have nil.
var numbers = func() (table [reflect.UnsafePointer + 1]*element) {
	for _, t := range []struct {
		class uint32
		types []reflect.Type
	}{
		{classSigned, []reflect.Type{reflect.TypeFor[int](), reflect.TypeFor[int8](), reflect.TypeFor[int16](), reflect.TypeFor[int32](), reflect.TypeFor[int64]()}},
		{classUnsigned, []reflect.Type{reflect.TypeFor[uint](), reflect.TypeFor[uint16](), reflect.TypeFor[uint32](), reflect.TypeFor[uint64](), reflect.TypeFor[uintptr]()}},
		{classFloat, []reflect.Type{reflect.TypeFor[float32](), reflect.TypeFor[float64]()}},
		{classComplex, []reflect.Type{reflect.TypeFor[complex64](), reflect.TypeFor[complex128]()}},
		{classBool, []reflect.Type{reflect.TypeFor[bool]()}},
	} {
		for _, typ := range t.types {
			n := int(typ.Size())
			e := &element{sig: t.class | uint32(n), size: n, unit: n}
			if t.class == classComplex {
				e.unit = n / 2
			}
			table[typ.Kind()] = e
		}
	}
	table[reflect.Uint8] = rawBytes
	return table
}()

// elementOf returns the element of T. If T cannot be an element, its err field contains the reason.
func elementOf[T any]() *element {
	t := reflect.TypeFor[T]()
	if e := numbers[t.Kind()]; e != nil {
		return e
	}
	return composed(t)
}

// structs caches the elements of structs and arrays by their reflect.Type.
var structs sync.Map

// composed returns the element of a struct or array.
func composed(t reflect.Type) *element {
	if e, ok := structs.Load(t); ok {
		return e.(*element)
	}
	e := compose(t)
	structs.Store(t, e)
	return e
}

// compose analyses a type. A type that consists only of adjacent numbers of one kind counts as that
// many numbers, as in MPI. Any other type is a struct.
func compose(t reflect.Type) *element {
	e := &element{size: int(t.Size())}
	if e.size == 0 {
		e.err = opError("use elements", ErrType, "%v has no size", t)
		return e
	}
	if e.runs, e.err = appendRuns(nil, t, 0, t.String()); e.err != nil {
		return e
	}
	if len(e.runs) == 0 {
		e.err = opError("use elements", ErrType, "%v is nothing but padding", t)
		return e
	}
	if r := e.runs[0]; len(e.runs) == 1 && r.count*numberSize(r.sig) == e.size {
		e.sig, e.unit, e.runs = r.sig, r.unit, nil
		if e.sig == sigByte {
			e.sig = sigRaw
		}
		return e
	}
	h := fnv.New32a()
	fmt.Fprint(h, e.size, e.runs)
	e.sig = h.Sum32() | sigStruct
	return e
}

// maxRuns limits the work of compose.
const maxRuns = 1 << 12

// appendRuns appends the runs of t at offset. Errors use name for it. Blank fields are padding.
func appendRuns(runs []run, t reflect.Type, offset int, name string) (_ []run, err error) {
	if n := numbers[t.Kind()]; n != nil {
		sig := n.sig
		if t.Kind() == reflect.Uint8 {
			sig = sigByte
		}
		return addRun(runs, run{offset: offset, count: 1, sig: sig, unit: n.unit}), nil
	}
	switch t.Kind() {
	case reflect.Struct:
		for i := 0; i < t.NumField() && err == nil; i++ {
			if f := t.Field(i); f.Name != "_" {
				runs, err = appendRuns(runs, f.Type, offset+int(f.Offset), name+"."+f.Name)
			}
		}
		return runs, err
	case reflect.Array:
		return appendArray(runs, t, offset, name)
	}
	return nil, opError("use elements", ErrType, "%s is a %v: elements are numbers, booleans, and arrays and structs of these, without pointers", name, t.Kind())
}

func appendArray(runs []run, t reflect.Type, offset int, name string) ([]run, error) {
	one := t.Elem()
	first, err := appendRuns(nil, one, 0, name+"[0]")
	if err != nil || len(first) == 0 {
		return runs, err
	}
	if r := first[0]; len(first) == 1 && r.count*numberSize(r.sig) == int(one.Size()) {
		r.offset, r.count = offset, r.count*t.Len()
		return addRun(runs, r), nil
	}
	for i := range t.Len() {
		if len(runs) > maxRuns {
			return nil, opError("use elements", ErrType, "%s has more than %d changes between kinds of numbers", name, maxRuns)
		}
		for _, r := range first {
			r.offset += offset + i*int(one.Size())
			runs = addRun(runs, r)
		}
	}
	return runs, nil
}

// addRun appends r, or extends the last run if r continues it.
func addRun(runs []run, r run) []run {
	if r.count == 0 {
		return runs
	}
	if last := len(runs) - 1; last >= 0 && runs[last].sig == r.sig && runs[last].offset+runs[last].count*numberSize(r.sig) == r.offset {
		runs[last].count += r.count
		return runs
	}
	return append(runs, r)
}

// numberSize returns the size in bytes of a number.
func numberSize(sig uint32) int { return int(sig &^ classMask) }

// matches reports whether a receive of e takes elements of signature sig.
func (e *element) matches(sig uint32) bool { return e.sig == sig || sig == sigRaw || e.sig == sigRaw }

// swap changes the byte order of the whole elements in b, in place.
func (e *element) swap(b []byte) {
	if e.unit > 0 {
		swap(b, e.unit)
		return
	}
	for ; len(b) >= e.size; b = b[e.size:] {
		for _, r := range e.runs {
			swap(b[r.offset:][:r.count*numberSize(r.sig)], r.unit)
		}
	}
}

// sigName returns a human-readable name of a signature.
func sigName(sig uint32) string {
	if sig&sigStruct != 0 {
		return fmt.Sprintf("a struct of signature %08x", sig)
	}
	bits := 8 * numberSize(sig)
	switch sig & classMask {
	case classSigned:
		return fmt.Sprintf("int%d", bits)
	case classUnsigned:
		return fmt.Sprintf("uint%d", bits)
	case classFloat:
		return fmt.Sprintf("float%d", bits)
	case classComplex:
		return fmt.Sprintf("complex%d", bits)
	case classBool:
		return "bool"
	}
	return fmt.Sprintf("elements of signature %08x", sig)
}

// hostBig is flagBig on a big-endian host, else 0.
var hostBig = func() uint8 {
	if binary.NativeEndian.Uint16([]byte{0, 1}) == 1 {
		return flagBig
	}
	return 0
}()

// putRight converts the payload b, of a message with these flags and this signature, for a receive
// of elements e. Raw bytes stay unchanged.
func (w *world) putRight(b []byte, e *element, flags uint8, sig uint32) {
	if flags&flagBig != w.order && sig != sigRaw && e.sig != sigRaw {
		e.swap(b)
	}
}

// swap reverses the bytes of each whole unit of b in place. The receiver converts: it calls swap on
// data from a host of the other byte order.
func swap(b []byte, unit int) {
	ne := binary.NativeEndian
	switch unit {
	case 2:
		for ; len(b) >= 2; b = b[2:] {
			ne.PutUint16(b, bits.ReverseBytes16(ne.Uint16(b)))
		}
	case 4:
		for ; len(b) >= 4; b = b[4:] {
			ne.PutUint32(b, bits.ReverseBytes32(ne.Uint32(b)))
		}
	case 8:
		for ; len(b) >= 8; b = b[8:] {
			ne.PutUint64(b, bits.ReverseBytes64(ne.Uint64(b)))
		}
	}
}
