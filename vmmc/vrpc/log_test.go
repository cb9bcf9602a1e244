package vrpc_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/vmmc/vrpc"
	"github.com/bobnet-go/bobnet/vmmc/xdr"
)

// blockingHandler is a slog.Handler that does not return from a line, as one whose stderr
// nobody reads.
type blockingHandler struct{ block chan struct{} }

func (blockingHandler) Enabled(context.Context, slog.Level) bool { return true }
func (h blockingHandler) Handle(context.Context, slog.Record) error {
	<-h.block
	return nil
}
func (h blockingHandler) WithAttrs([]slog.Attr) slog.Handler { return h }
func (h blockingHandler) WithGroup(string) slog.Handler      { return h }

// TestLogHandlerBlocks: a handler of log lines that blocks keeps no caller from the answer that
// a procedure has failed, nor the server from closing.
func TestLogHandlerBlocks(t *testing.T) {
	h := blockingHandler{make(chan struct{})}
	defer close(h.block)
	s := vrpc.NewServer(&vrpc.ServerConfig{Logger: slog.New(h)})
	if err := s.Register(testProgram()); err != nil {
		t.Fatal(err)
	}
	c := listen(t, s, "tcp", nil)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for range 3 {
		if err := c.Call(ctx, procFail, &number{failPanic}, &xdr.Void{}); !errors.Is(err, vrpc.SystemErr) {
			t.Fatalf("a call that fails: %v", err)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
