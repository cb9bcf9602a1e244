package am

import "github.com/bobnet-go/bobnet/splitc/internal/layer"

// Panics returns how many handlers of a layer have panicked, which endpoint outlives.
func Panics(l layer.Layer) uint64 { return l.(*Layer).node.Stats().Panics }

// What tests of bare endpoints need.
const StoreDone = hStoreDone

var ErrUnanswered = errUnanswered
