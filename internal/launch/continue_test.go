package launch

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// goesOn runs a script as four ranks on two hosts that go on when one fails.
func goesOn(t *testing.T, script string) (stdout string, failed *ExitError) {
	t.Helper()
	var out bytes.Buffer
	c := config("sh", "-c", script)
	c.Continue, c.Stdout, c.Silence = true, &out, 2*time.Second
	err := c.Run(t.Context())
	if !errors.As(err, &failed) {
		t.Fatalf("the job ended with %v, want an ExitError", err)
	}
	return out.String(), failed
}

// TestContinue: a rank that fails does not end the others, and all that fail are named at
// the end with the worst exit code.
func TestContinue(t *testing.T) {
	f := newFIFO(t)
	out, err := goesOn(t, fmt.Sprintf(`case $BOBNET_RANK in
0) read -r line <%[1]s; read -r line <%[1]s; sleep 1; echo alive ;;
1) exit 3 ;;
2) echo over >%[1]s; kill -9 $$ ;;
3) echo over >%[1]s ;;
esac`, f.in.Name()))
	if !strings.Contains(out, "[0] alive\n") {
		t.Errorf("rank 0 was ended by the others' failures, and printed %q", out)
	}
	text := err.Error()
	for _, want := range []string{"run: 2 of 4 ranks failed: rank ", "rank 1 on host localhost: exit status 3", "rank 2 on host other: signal: killed", "; worst exit code 137"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q says nothing of %q", text, want)
		}
	}
	if err.Code != 137 {
		t.Errorf("exit code %d, want 137", err.Code)
	}
}

// TestContinueWithoutHost: all ranks of a host that is lost have failed, and the others go on.
func TestContinueWithoutHost(t *testing.T) {
	c := withGoner("told", "sleep 1; echo alive")
	var out bytes.Buffer
	c.Continue, c.Stdout = true, &out
	var failed *ExitError
	if err := c.Run(t.Context()); !errors.As(err, &failed) || len(failed.Failed) != 2 || failed.Failed[0].Rank != 2 || failed.Failed[1].Host != "other" {
		t.Errorf("the job ended with %v, want that ranks 2 and 3 on host other have failed", err)
	}
	if n := strings.Count(out.String(), "alive\n"); n != 2 {
		t.Errorf("%d ranks of the other host have gone on, want 2: %q", n, &out)
	}
}
