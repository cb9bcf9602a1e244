//go:build !amd64 || race

package latch

import "sync/atomic"

// Release stores v for one goroutine that stores and others that load. A goroutine that loads v
// sees everything that was stored before v.
func Release(p *atomic.Uint64, v uint64) { p.Store(v) }

// ReleaseBool is Release of a Bool.
func ReleaseBool(p *atomic.Bool, v bool) { p.Store(v) }

func release(p *atomic.Uint32, v uint32) { p.Store(v) }
