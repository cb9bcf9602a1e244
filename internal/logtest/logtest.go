// Package logtest provides a log handler for tests. With it a test calls the code that logs from
// within a log call, or blocks it, like a handler whose stderr is not read.
package logtest

import (
	"context"
	"log/slog"
)

// Handler is a slog.Handler that calls a function with the message of each line, on the
// goroutine that handles it.
type Handler func(line string)

// Enabled is part of slog.Handler: all lines are handled.
func (Handler) Enabled(context.Context, slog.Level) bool { return true }

// Handle is part of slog.Handler.
func (h Handler) Handle(_ context.Context, r slog.Record) error {
	h(r.Message)
	return nil
}

// WithAttrs is part of slog.Handler. The attributes are dropped.
func (h Handler) WithAttrs([]slog.Attr) slog.Handler { return h }

// WithGroup is part of slog.Handler.
func (h Handler) WithGroup(string) slog.Handler { return h }
