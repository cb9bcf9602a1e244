//go:build !amd64

package driver

import "unsafe"

// Prefetch would fetch the cache line at p, as on amd64.
func Prefetch(unsafe.Pointer) {}
