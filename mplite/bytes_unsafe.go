package mplite

import (
	"sync/atomic"
	"unsafe"
)

// Number is the constraint of all numeric types, and all types based on them. The size of int, uint
// and uintptr depends on the host's word size. If the hosts of a job differ in word size, use
// fixed-size types.
type Number interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 |
		~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uintptr |
		~float32 | ~float64 | ~complex64 | ~complex128
}

// asBytes returns the memory of s.
func asBytes[T any](s []T) []byte {
	var t T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(t)))
}

// asNumbers returns the memory of words as elements of type T, as many as fit.
func asNumbers[T any](words []uint64) []T {
	var t T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(words))), len(words)*8/int(unsafe.Sizeof(t)))
}

// asElements returns bytes that hold Ts as a slice of T.
func asElements[T any](b []byte) []T {
	var t T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(t)))
}

// addressOf returns the virtual address of a word, for other processes.
func addressOf(word *atomic.Uint64) uint64 { return uint64(uintptr(unsafe.Pointer(word))) }

// sizeOf returns the size of an element in bytes.
func sizeOf[T any]() int {
	var t T
	return int(unsafe.Sizeof(t))
}
