package vmmc

import (
	"fmt"
	"unsafe"
)

// Word returns the aligned 4-byte word at an offset of buf, for WaitWord, Spin and the functions of
// sync/atomic. It panics if buf has no such word.
func Word(buf []byte, offset int) *uint32 {
	p := unsafe.Pointer(&buf[offset : offset+WordSize][0])
	if uintptr(p)%WordSize != 0 {
		panic(fmt.Sprintf("vmmc: offset %d of the buffer is not aligned to %d bytes", offset, WordSize))
	}
	return (*uint32)(p)
}

// addressOf returns the address of buf.
func addressOf(buf []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(buf))) }

// bytesOf returns the memory of words.
func bytesOf(words []uint32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), len(words)*WordSize)
}
