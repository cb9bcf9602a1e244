package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/bobnet-go/bobnet/internal/userfile"
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

// TestEnded: what a verb could not do because of a signal is no failure, but a file that it could not write is one.
func TestEnded(t *testing.T) {
	failure := errors.New("nobody answers")
	full := &userfile.WriteError{Err: errors.New("no space left on device")}
	own := fmt.Errorf("lab: job interrupted: %w", interrupted(unix.SIGTERM))
	for _, tt := range []struct {
		ctx      context.Context
		err      error
		printing error
		want     error
	}{
		{t.Context(), nil, nil, nil},
		{t.Context(), failure, nil, failure},
		{stopped(t), nil, nil, nil}, // it had finished
		{stopped(t), failure, nil, interrupted(unix.SIGINT)},
		{stopped(t), own, nil, own},
		{t.Context(), nil, full, full},
		{t.Context(), failure, full, failure},
		{stopped(t), nil, full, full},
		{stopped(t), own, full, full},
		{stopped(t), errors.Join(own, fmt.Errorf("pcap: %w", full)), nil, full},
	} {
		if got := ended(tt.ctx, tt.err, tt.printing); got != tt.want { //nolint:errorlint // the very one
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
	if code := exitCode(ended(stopped(t), err, nil)); code != 130 || out.Len() > 0 {
		t.Errorf("doctor: %v, code %d, and it says:\n%s", err, code, &out)
	}
}

// TestInterruptedPing: before the first answer, and before the name is known.
func TestInterruptedPing(t *testing.T) {
	nic, err := vipl.Open(t.Context(), &vipl.Config{Link: sim.New(sim.Options{Seed: 1}).Station("a")})
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
		if code := exitCode(ended(stopped(t), err, nil)); code != 130 || !strings.HasSuffix(out.String(), want) {
			t.Errorf("ping %s: %v, code %d, and it says:\n%s", target, err, code, &out)
		}
	}
	if err := (&pingCall{name: "x"}).serve(stopped(t), nic, io.Discard); exitCode(err) != 130 {
		t.Errorf("ping --listen: %v", err)
	}
}
