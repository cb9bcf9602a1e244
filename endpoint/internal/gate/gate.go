// Package gate implements the gates of a provider whose work an engine drives: the engine of a NIC
// or of a card. Goroutines wait at a gate.
package gate

import (
	"context"
	"errors"
	"fmt"

	"github.com/bobnet-go/bobnet/endpoint/internal/provider"
	"github.com/bobnet-go/bobnet/internal/progress"
)

// gate is a gate of an engine, whose lock guards it.
type gate struct {
	engine *progress.Engine
	gate   progress.Gate
	seen   uint32 // how often it had been opened when Wait last returned
}

// New returns a gate of an engine.
func New(e *progress.Engine) provider.Gate { return &gate{engine: e} }

// Open implements provider.Gate.
func (g *gate) Open() {
	g.engine.Lock()
	defer g.engine.Unlock()
	g.gate.Open(g.engine)
}

// Wait implements provider.Gate.
func (g *gate) Wait(ctx context.Context) error {
	e := g.engine
	e.Lock()
	defer e.Unlock()
	w := e.Begin(ctx)
	defer e.End(&w)
	err := e.Park(&w, &g.gate, g.seen)
	g.seen = g.gate.Opened()
	return EndOf(err)
}

// EndOf returns why a wait of an engine has ended, in the terms of the contract of providers.
func EndOf(err error) error {
	var end *progress.EndError
	if errors.As(err, &end) {
		if end.Failed != nil {
			return fmt.Errorf("%w: %w", provider.ErrClosed, end.Failed)
		}
		return end.Context
	}
	return err
}
