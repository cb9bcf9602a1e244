package test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/lab"
	"github.com/bobnet-go/bobnet/job"
	"golang.org/x/sys/unix"
)

// TestInterruptedInit interrupts the examples of mplite while a rank looks for
// the others, which never come: Ctrl-C ends them, and not the time-out of Init.
func TestInterruptedInit(t *testing.T) {
	l := newLab(t, lab.Config{N: 2})
	dir := commands(t)
	for _, program := range []string{"heat", "sort"} {
		for rank := range 2 {
			t.Run(fmt.Sprintf("%s/%d", program, rank), func(t *testing.T) {
				name := strings.ReplaceAll(t.Name(), "/", "-")
				var out bytes.Buffer
				cmd := exec.Command("env", job.EnvJob+"="+name, fmt.Sprintf("%s=%d", job.EnvRank, rank), job.EnvSize+"=2",
					filepath.Join(dir, program))
				cmd.Stdout, cmd.Stderr = &out, &out
				p, err := l.Start(0, cmd)
				if err != nil {
					t.Fatal(err)
				}
				seek(t, l, fmt.Sprintf("job/%s/%d", name, rank))
				if err := p.Signal(unix.SIGINT); err != nil {
					t.Fatal(err)
				}
				select {
				case <-p.Done():
				case <-time.After(patience):
					p.Signal(unix.SIGQUIT)
					<-p.Done()
				}
				if want := fmt.Sprintf(`context canceled before rank %d of job "%s" had connected`, 1-rank, name); p.Code() != 1 || !strings.Contains(out.String(), want) {
					t.Errorf("ended with code %d, want 1 and %q:\n%s", p.Code(), want, &out)
				}
			})
		}
	}
}

// seek returns when somebody on the lab's segment answers to name, so that its
// owner is in the middle of Init.
func seek(t *testing.T, l *lab.Lab, name string) {
	t.Helper()
	for end := time.Now().Add(patience); ; {
		var out bytes.Buffer
		cmd := exec.Command(filepath.Join(commands(t), "bobnet"), "ping", "-c", "1", name)
		cmd.Stdout, cmd.Stderr = &out, &out
		p, err := l.Start(1, cmd)
		if err != nil {
			t.Fatal(err)
		}
		if <-p.Done(); p.Code() == 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("nobody answers to %s:\n%s", name, &out)
		}
	}
}

// TestUnwritableResult: the examples that write a file say that they cannot
// before they work for it.
func TestUnwritableResult(t *testing.T) {
	name := filepath.Join(t.TempDir(), "none", "result")
	dir := commands(t) // built before the clocks start
	for _, argv := range [][]string{
		{"heat", "-steps", "1000000000", "-out", name},
		{"sort", "-gen", "1000", "-out", name},
		{"raytrace", "-samples", "64", "-out", name},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		cmd := exec.CommandContext(ctx, filepath.Join(dir, argv[0]), argv[1:]...)
		cmd.Env = append(os.Environ(), job.EnvSize+"=") // a job of one
		out, err := cmd.CombinedOutput()
		if err == nil || ctx.Err() != nil || !bytes.Contains(out, []byte(name)) || bytes.Contains(out, []byte("sorted")) {
			t.Errorf("%q: %v, want an early error that names the file:\n%s", argv, err, out)
		}
	}
}
