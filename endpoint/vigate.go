package endpoint

import (
	"context"
	"errors"
	"fmt"

	"github.com/bobnet-go/bobnet/progress"
)

// viGate is a gate of the NIC's engine. The engine's lock guards it.
type viGate struct {
	engine *progress.Engine
	gate   progress.Gate
	seen   uint32 // how often it had been opened when wait last returned
}

func (w *viWay) gate() gate { return &viGate{engine: w.nic.Engine()} }

func (g *viGate) open() {
	g.engine.Lock()
	defer g.engine.Unlock()
	g.gate.Open(g.engine)
}

func (g *viGate) wait(ctx context.Context) error {
	e := g.engine
	e.Lock()
	defer e.Unlock()
	w := e.Begin(ctx)
	defer e.End(&w)
	err := e.Park(&w, &g.gate, g.seen)
	g.seen = g.gate.Opened()
	if end := (*progress.EndError)(nil); errors.As(err, &end) {
		if end.Failed != nil {
			return fmt.Errorf("%w: %w", ErrClosed, end.Failed)
		}
		return end.Context
	}
	return nil
}
