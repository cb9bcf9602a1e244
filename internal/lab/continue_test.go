package lab

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// TestContinue: a rank that fails does not end the others, and all that fail are named at
// the end with the worst exit code.
func TestContinue(t *testing.T) {
	l := newLab(t, Config{N: 3})
	out, err := script(t.Context(), t, l, `case $BOBNET_RANK in 0) exit 3;; 1) kill -9 $$;; esac; sleep 1; echo alive`, RunOptions{Continue: true})
	var failed *ExitError
	if !errors.As(err, &failed) || failed.Code != 137 || len(failed.Failed) != 2 {
		t.Fatalf("Run returned %v, want an ExitError of two ranks with code 137", err)
	}
	if out != "alive\n" {
		t.Errorf("rank 2 printed %q: it was ended by the others' failures", out)
	}
	for _, want := range []string{"lab: 2 of 3 ranks failed: rank ", "rank 0: exit status 3", "rank 1: signal: killed", "; worst exit code 137"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q says nothing of %q", err, want)
		}
	}
}

// TestFailures: of many failures the first are told in full.
func TestFailures(t *testing.T) {
	var failed []Failure
	for rank := range 20 {
		failed = append(failed, Failure{Rank: rank, Host: fmt.Sprint("h", rank), State: "exit status 1"})
	}
	text := Failures(failed, 64)
	if !strings.HasPrefix(text, "20 of 64 ranks failed: rank 0 on host h0: exit status 1; rank 1 on host h1: ") || !strings.HasSuffix(text, "rank 15 on host h15: exit status 1; and 4 more") {
		t.Errorf("got %q", text)
	}
}
