package vrpc_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/logtest"
	"github.com/bobnet-go/bobnet/vmmc/vrpc"
	"github.com/bobnet-go/bobnet/vmmc/xdr"
)

// TestLogHandlerBlocks: a handler of log lines that blocks keeps no caller from the answer that
// a procedure has failed, nor the server from closing.
func TestLogHandlerBlocks(t *testing.T) {
	block := make(chan struct{})
	defer close(block)
	s := vrpc.NewServer(&vrpc.ServerConfig{Logger: slog.New(logtest.Handler(func(string) { <-block }))})
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
