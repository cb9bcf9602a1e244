package providertest

import "unsafe"

// word returns a pointer to the word of b at the offset at.
func word(b []byte, at int) *uint32 { return (*uint32)(unsafe.Pointer(&b[at])) }
