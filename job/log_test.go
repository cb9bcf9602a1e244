package job_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// blockingHandler is a slog.Handler that does not return from a line, as one whose stderr
// nobody reads.
type blockingHandler struct{ lines, block chan struct{} }

func (blockingHandler) Enabled(context.Context, slog.Level) bool { return true }
func (h blockingHandler) Handle(context.Context, slog.Record) error {
	h.lines <- struct{}{}
	<-h.block
	return nil
}
func (h blockingHandler) WithAttrs([]slog.Attr) slog.Handler { return h }
func (h blockingHandler) WithGroup(string) slog.Handler      { return h }

// TestLogHandlerBlocks: a handler that blocks when it is told whom Join waits for keeps the
// ranks from nothing.
func TestLogHandlerBlocks(t *testing.T) {
	h := blockingHandler{make(chan struct{}, 8), make(chan struct{})}
	defer close(h.block)
	w := newWorld(2, sim.Options{Seed: 1})
	w.cfg.Logger = slog.New(h)
	for rank := range 2 {
		w.host("rank", time.Duration(rank)*5*time.Second, func(nic *vipl.NIC) error {
			m, err := w.join(bg, nic, rank)
			if err != nil {
				return err
			}
			return m.Leave(bg)
		})
	}
	ended := make(chan error, 1)
	go func() { ended <- w.run() }()
	select {
	case err := <-ended:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("the ranks are stuck")
	}
	<-h.lines
}
