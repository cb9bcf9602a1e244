//go:build amd64

package ring

import "unsafe"

// prefetch fetches the beginning of the frame in a slot: its headers and as much
// data as a short message has. They lie in the sender's cache. Whoever has seen that
// the slot is full will read them, and does other things before.
//
//go:noescape
func prefetch(slot unsafe.Pointer)
