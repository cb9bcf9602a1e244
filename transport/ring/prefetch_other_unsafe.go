//go:build !amd64

package ring

import "unsafe"

// prefetch would fetch the beginning of a frame, as on amd64.
func prefetch(unsafe.Pointer) {}
