package nodeagent

import (
	"context"
	"log/slog"
	"testing"
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

// TestLogHandlerBlocks: a handler of log lines that blocks keeps nobody from an answer.
func TestLogHandlerBlocks(t *testing.T) {
	h := blockingHandler{make(chan struct{}, 1), make(chan struct{})}
	path := logging(t, slog.New(h))
	t.Cleanup(func() { close(h.block) }) // before the server is closed
	answers(t, path)
	<-h.lines
	for range 3 {
		answers(t, path)
	}
}
