package splitc

import (
	"fmt"
	"reflect"
	"sync"
	"unsafe"
)

// size and align return the size and the alignment of a T in bytes. They do not allocate a T, which
// may be longer than memory.
func size[T any]() uint64 {
	var p *T
	return uint64(unsafe.Sizeof(*p))
}

func align[T any]() uint64 {
	var p *T
	return uint64(unsafe.Alignof(*p))
}

// bytesOf returns the bytes of a value in place.
func bytesOf[T any](p *T) []byte { return unsafe.Slice((*byte)(unsafe.Pointer(p)), unsafe.Sizeof(*p)) }

// bytesOfSlice returns the bytes of a slice in place.
func bytesOfSlice[T any](s []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), uint64(len(s))*size[T]())
}

// at returns the T at offset off of a heap. The caller must have checked the offset.
func at[T any](heap []byte, off uint64) *T { return (*T)(unsafe.Pointer(&heap[off])) }

// offsetOf returns the offset of an address in a heap, and whether it lies there.
func offsetOf[T any](heap []byte, p *T) (off uint64, ok bool) {
	off = uint64(uintptr(unsafe.Pointer(p)) - uintptr(unsafe.Pointer(unsafe.SliceData(heap))))
	return off, off < uint64(len(heap))
}

// overlap reports whether two parts of memory share a byte.
func overlap(a, b []byte) bool {
	x, y := uintptr(unsafe.Pointer(unsafe.SliceData(a))), uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	return x < y+uintptr(len(b)) && y < x+uintptr(len(a))
}

// typeKey identifies a type: two keys are equal if the types are.
type typeKey any

func keyOf[T any]() typeKey { return (*T)(nil) }

// types caches the results of checkType.
var types sync.Map // typeKey to error, nil for those that may be in a heap

// checkType returns an error if T cannot be in a heap. Only types of fixed size without pointers
// can.
func checkType[T any]() error {
	key := keyOf[T]()
	if v, ok := types.Load(key); ok {
		err, _ := v.(error)
		return err
	}
	t := reflect.TypeFor[T]()
	var err error
	if why := unfit(t); why != "" {
		err = fmt.Errorf("%w: %v has %s", errType, t, why)
	}
	types.Store(key, err)
	return err
}

// unfit returns why a type cannot be in a heap, or "".
func unfit(t reflect.Type) string {
	if t.Size() == 0 {
		return "no size"
	}
	return pointers(t)
}

// pointers returns a description of the pointers in a type, or "".
func pointers(t reflect.Type) string {
	switch k := t.Kind(); {
	case k >= reflect.Bool && k <= reflect.Complex128:
		return ""
	case k == reflect.Array:
		if t.Len() == 0 {
			return ""
		}
		return pointers(t.Elem())
	case k == reflect.Struct:
		for f := range t.Fields() {
			if why := pointers(f.Type); why != "" {
				return why + ", in field " + f.Name
			}
		}
		return ""
	}
	return "pointers: " + t.Kind().String()
}

// localSlice returns n elements at offset off of this rank's heap, as a slice.
func localSlice[T any](w *World, off uint64, n int) []T {
	if n == 0 {
		return []T{}
	}
	_ = w.heap[off+uint64(n)*size[T]()-1]
	return unsafe.Slice((*T)(unsafe.Pointer(&w.heap[off])), n)
}

// held returns the bytes of a value for a layer to copy, in the world's memory, so that v need not
// escape from the caller's stack. A layer may use the bytes of a long value until a Sync.
func held[T any](w *World, v T) []byte {
	in := unsafe.Pointer(&w.small)
	if size[T]() > uint64(unsafe.Sizeof(w.small)) {
		in = w.long.allocate(size[T](), w.synced())
	}
	p := (*T)(in)
	*p = v
	return bytesOf(p)
}

// landing returns the memory for the value of a read.
func landing[T any](w *World) *T {
	if size[T]() > uint64(unsafe.Sizeof(w.small)) {
		return (*T)(w.long.allocate(size[T](), w.synced()))
	}
	return (*T)(unsafe.Pointer(w.landing))
}

// longValues is memory for values that are too long for a layer to copy. It is a slab that is reused
// when no value in it is in use. If that takes too long, a slab of twice its length follows. No value
// has pointers, or an alignment of more than a word.
type longValues struct {
	slab []uint64
	used int // words in use
}

// The length of slabs in words.
const (
	slabLeast = 256
	slabMost  = 1 << 17
)

// allocate returns memory for n bytes, which is not reused until free is true.
func (v *longValues) allocate(n uint64, free bool) unsafe.Pointer {
	if free {
		v.used = 0
	}
	words := int((n + 7) / 8)
	if words > len(v.slab)-v.used {
		v.slab, v.used = make([]uint64, max(min(2*len(v.slab), slabMost), slabLeast, words)), 0
	}
	p := unsafe.Pointer(&v.slab[v.used])
	v.used += words
	return p
}
