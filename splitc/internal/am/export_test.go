package am

import (
	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/splitc/internal/layer"
)

// Panics returns how many handlers of a layer have panicked, which endpoint outlives.
func Panics(l layer.Layer) uint64 { return l.(*Layer).node.Stats().Panics }

// What tests of bare endpoints need.
const StoreDone = hStoreDone

var ErrUnanswered = errUnanswered

// Return gives a message back to a layer that knows ranks by names, and returns its failure.
func Return(names []endpoint.Name, r *endpoint.Returned) error {
	l := &Layer{names: names}
	l.returned(r)
	return l.err
}
