package lanai

import (
	"context"

	"github.com/bobnet-go/bobnet/endpoint/internal/provider"
	"github.com/bobnet-go/bobnet/progress"
)

// gate is a gate of the card's engine, whose lock guards it.
type gate struct {
	engine *progress.Engine
	gate   progress.Gate
	seen   uint32 // how often it had been opened when Wait last returned
}

// Gate implements provider.Provider.
func (p *Provider) Gate() provider.Gate { return &gate{engine: &p.card.engine} }

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
	return endOf(err)
}
