//go:build !amd64

package driver

import "unsafe"

// Prefetch does nothing on this processor; see the version for amd64.
func Prefetch(unsafe.Pointer) {}
