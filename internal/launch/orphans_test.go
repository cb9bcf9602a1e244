package launch

import (
	"context"
	"errors"
	"testing"
)

// TestGrandchildrenEnd: what a rank has started in a session of its own does not outlive the
// job, whether the rank ends by itself or is ended.
func TestGrandchildrenEnd(t *testing.T) {
	for name, end := range map[string]string{"success": "exit 0", "failure": "exit 3", "killed": "kill -9 $$"} {
		t.Run(name, func(t *testing.T) {
			left := newFIFO(t)
			const daemon = `sh -c 'echo started >&9; setsid sleep 1000 & exec sleep 1000'`
			_, errOut, err := script(t.Context(), `exec 9>`+left.in.Name()+`; setsid `+daemon+` <&- >&- 2>&- & sleep 1; `+end)
			if (err == nil) != (name == "success") {
				t.Errorf("the job ended with %v\n%s", err, errOut)
			}
			left.ended(t)
		})
	}
}

// TestGrandchildrenOfInterrupted: an interrupted job leaves nothing either, though what is in
// a session of its own holds the output of its rank and the connection to the node.
func TestGrandchildrenOfInterrupted(t *testing.T) {
	left := newFIFO(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("Ctrl-C")
	go func() {
		left.started(t, 4)
		cancel(cause)
	}()
	_, errOut, err := script(ctx, `exec 9>`+left.in.Name()+`; setsid sh -c 'echo started >&9; exec sleep 1000' & wait`)
	if !errors.Is(err, cause) {
		t.Errorf("%v, want that it was interrupted\n%s", err, errOut)
	}
	left.ended(t)
}
