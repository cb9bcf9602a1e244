//go:build amd64

package driver

import "unsafe"

// Prefetch loads the cache line at p. Drivers call it for the beginning of a frame when
// they have seen that there is one. The frame lies in its sender's cache, and the caller
// of Ready does other things before it reads the frame, so that the line is there by then.
// It takes up to 80 ns off the time to a frame's answer. It never faults.
//
//go:noescape
func Prefetch(p unsafe.Pointer)
