//go:build amd64

package driver

import "unsafe"

// Prefetch fetches the cache line at p. Drivers call it for the beginning of a frame,
// which lies in its sender's cache, when they have seen that there is one: whoever has
// asked will read it, and does other things before. It never faults.
//
//go:noescape
func Prefetch(p unsafe.Pointer)
