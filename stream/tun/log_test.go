package tun_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"

	"github.com/bobnet-go/bobnet/stream/tun"
)

// blockingHandler is a slog.Handler that does not return from a line, as one whose stderr
// nobody reads.
type blockingHandler struct{ block func() }

func (blockingHandler) Enabled(context.Context, slog.Level) bool { return true }
func (h blockingHandler) Handle(context.Context, slog.Record) error {
	h.block()
	return nil
}
func (h blockingHandler) WithAttrs([]slog.Attr) slog.Handler { return h }
func (h blockingHandler) WithGroup(string) slog.Handler      { return h }

// TestLogHandlerBlocks: a handler of log lines that blocks keeps no packet from its way, and
// the hosts close without it.
func TestLogHandlerBlocks(t *testing.T) {
	block, blocked := make(chan struct{}), make(chan struct{})
	defer close(block)
	var once sync.Once
	p, hosts := pair(t, 1500, tun.Config{Logger: slog.New(blockingHandler{func() {
		once.Do(func() { close(blocked) })
		<-block
	}})})
	if out, err := run(t, p, 0, "ping", "-c", "2", "-i", "0.02", "-W", "20", "10.9.0.2"); err != nil {
		t.Errorf("ping: %v\n%s", err, out)
	}
	<-blocked
	hosts[0].stop(t)
	hosts[1].stop(t)
}
