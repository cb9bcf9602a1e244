package providertest

import "unsafe"

// word returns the word of memory at an offset.
func word(b []byte, at int) *uint32 { return (*uint32)(unsafe.Pointer(&b[at])) }
