package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
	"golang.org/x/sys/unix"
)

// stopped is a context that Ctrl-C has ended.
func stopped(t *testing.T) context.Context {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(interrupted(unix.SIGINT))
	return ctx
}

// TestEnded: what a verb could not do because of a signal is no failure.
func TestEnded(t *testing.T) {
	failure := errors.New("nobody answers")
	own := fmt.Errorf("lab: job interrupted: %w", interrupted(unix.SIGTERM))
	for _, tt := range []struct {
		ctx  context.Context
		err  error
		want error
	}{
		{t.Context(), nil, nil},
		{t.Context(), failure, failure},
		{stopped(t), nil, nil}, // it had finished
		{stopped(t), failure, interrupted(unix.SIGINT)},
		{stopped(t), own, own},
	} {
		if got := ended(tt.ctx, tt.err); got != tt.want { //nolint:errorlint // the very one
			t.Errorf("ended(%v, %v) = %v, want %v", tt.ctx, tt.err, got, tt.want)
		}
	}
}

// TestInterruptedDoctor: a question that was cut off is no finding.
func TestInterruptedDoctor(t *testing.T) {
	cmd := newDoctorCmd()
	cmd.SilenceUsage, cmd.SilenceErrors = true, true // as under its root
	var out strings.Builder
	cmd.SetArgs(nil)
	cmd.SetOut(&out)
	err := cmd.ExecuteContext(stopped(t))
	if code := exitCode(ended(stopped(t), err)); code != 130 || out.Len() > 0 {
		t.Errorf("doctor: %v, code %d, and it says:\n%s", err, code, &out)
	}
}

// TestInterruptedPing: before the first answer, and before the name is known.
func TestInterruptedPing(t *testing.T) {
	nic, err := vipl.Open(&vipl.Config{Link: sim.New(sim.Options{Seed: 1}).Station("a")})
	if err != nil {
		t.Fatal(err)
	}
	defer nic.Close()
	for target, want := range map[string]string{
		"02:62:6f:62:00:09": "0 sent, 0 answered, and one under way when interrupted\n",
		"nobody":            "",
	} {
		var out strings.Builder
		call := &pingCall{timeout: 1, interval: 1}
		err := call.ping(stopped(t), nic, target, &out)
		if code := exitCode(ended(stopped(t), err)); code != 130 || !strings.HasSuffix(out.String(), want) {
			t.Errorf("ping %s: %v, code %d, and it says:\n%s", target, err, code, &out)
		}
	}
	if err := (&pingCall{name: "x"}).serve(stopped(t), nic, io.Discard); exitCode(err) != 130 {
		t.Errorf("ping --listen: %v", err)
	}
}
