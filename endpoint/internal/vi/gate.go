package vi

import (
	"context"
	"errors"
	"fmt"

	"github.com/bobnet-go/bobnet/endpoint/internal/provider"
	"github.com/bobnet-go/bobnet/progress"
)

// gate is a gate of the NIC's engine. The engine's lock guards it.
type gate struct {
	engine *progress.Engine
	gate   progress.Gate
	seen   uint32 // how often it had been opened when wait last returned
}

// Gate returns a gate of the NIC's engine.
func (w *Provider) Gate() provider.Gate { return &gate{engine: w.NIC.Engine()} }

func (g *gate) Open() {
	g.engine.Lock()
	defer g.engine.Unlock()
	g.gate.Open(g.engine)
}

func (g *gate) Wait(ctx context.Context) error {
	e := g.engine
	e.Lock()
	defer e.Unlock()
	w := e.Begin(ctx)
	defer e.End(&w)
	err := e.Park(&w, &g.gate, g.seen)
	g.seen = g.gate.Opened()
	if end := (*progress.EndError)(nil); errors.As(err, &end) {
		if end.Failed != nil {
			return fmt.Errorf("%w: %w", provider.ErrClosed, end.Failed)
		}
		return end.Context
	}
	return nil
}
