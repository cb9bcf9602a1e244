package main

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/bobnet-go/bobnet/transport"
)

// TestServeAgain: what serves goes on when its interface is there again, and ends with any
// other error, or when it is interrupted.
func TestServeAgain(t *testing.T) {
	other := errors.New("another cause")
	gone := fmt.Errorf("%w: eth1", transport.ErrGone)
	missing := fmt.Errorf("%w: there is no eth1", transport.ErrInterface)
	for _, test := range []struct {
		name  string
		calls []error
		want  error
	}{
		{"it works", []error{nil}, nil},
		{"there is no interface from the beginning", []error{missing}, transport.ErrInterface},
		{"gone, and another cause", []error{gone, other}, other},
		{"gone, missing for a while, down, there, gone again", []error{gone, missing, missing, transport.ErrLinkDown, gone, nil}, nil},
	} {
		name, n := "", 0
		err := serveAgain(t.Context(), "test", &name, func() error { n++; return test.calls[n-1] })
		if !errors.Is(err, test.want) || n != len(test.calls) {
			t.Errorf("%s: %v after %d calls, want %v after %d", test.name, err, n, test.want, len(test.calls))
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	name := ""
	if err := serveAgain(ctx, "test", &name, func() error { cancel(other); return gone }); err == nil {
		t.Error("an interrupt while the interface is gone is no error")
	}
}
