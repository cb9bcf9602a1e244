package launch

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"
)

// byHydra runs a shell script as every rank by hydra.
func byHydra(t *testing.T, text string) (stderr string, err error) {
	c, mpiexec := withHydra(t, "sh", "-c", text)
	var errOut bytes.Buffer
	c.Stderr = &errOut
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	err = c.Hydra(ctx, mpiexec)
	if ctx.Err() != nil {
		t.Errorf("the job did not end by itself: %v", err)
	}
	return errOut.String(), err
}

// TestHydraGrandchildrenEnd: the same under hydra, which waits for whatever holds a rank's output
// or its connection to hydra.
func TestHydraGrandchildrenEnd(t *testing.T) {
	for name, end := range map[string]string{"success": "exit 0", "failure": "exit 3", "killed": "kill -9 $$"} {
		t.Run(name, func(t *testing.T) {
			left := newFIFO(t)
			errOut, err := byHydra(t, `exec 9>`+left.in.Name()+`; setsid sh -c 'echo started >&9; setsid sleep 1000 & exec sleep 1000' & sleep 1; `+end)
			if (err == nil) != (name == "success") {
				t.Errorf("the job ended with %v\n%s", err, errOut)
			}
			left.ended(t)
		})
	}
}

// TestOrphansReaped: processes that a rank has left to others and that have ended are not kept as
// zombies while the rank runs.
func TestOrphansReaped(t *testing.T) {
	const text = `for i in 1 2 3; do (sh -c : & echo >/dev/null) ; done; i=0; while ps -o stat= --ppid $PPID | grep -q Z; do i=$((i+1)); [ $i -lt 200 ] || exit 5; sleep 0.05; done`
	if _, errOut, err := script(t.Context(), text); err != nil {
		t.Errorf("ssh: %v\n%s", err, errOut)
	}
	if errOut, err := byHydra(t, text); err != nil {
		t.Errorf("hydra: %v\n%s", err, errOut)
	}
}

// TestNodeKilled: if SIGKILL ends what runs ranks on a host, or the guard of that, nothing is left of
// the ranks, even what is in a session of its own. That is the node, or what hydra starts as each rank.
func TestNodeKilled(t *testing.T) {
	for name, which := range map[string]string{"itself": "$PPID", "guard": "$(cut -d' ' -f4 /proc/$PPID/stat)"} {
		for engine, run := range map[string]func(text string) error{
			"ssh":   func(text string) error { _, _, err := script(t.Context(), text); return err },
			"hydra": func(text string) error { _, err := byHydra(t, text); return err },
		} {
			t.Run(engine+" "+name, func(t *testing.T) {
				left := newFIFO(t)
				err := run(`exec 9>` + left.in.Name() + `; trap "" TERM; setsid sh -c 'echo started >&9; setsid sleep 1000 & exec sleep 1000' & sleep 1; [ $BOBNET_RANK != 3 ] || kill -s KILL ` + which + `; wait`)
				if err == nil {
					t.Error("the job ended without an error")
				}
				left.ended(t)
			})
		}
	}
}

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
