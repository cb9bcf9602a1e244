package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/userfile"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
	"golang.org/x/sys/unix"
)

// servingPatience bounds each wait for what is served.
const servingPatience = time.Minute

// TestServing: `perf --metrics` serves what both its halves count, over a wire
// and within one namespace, and `lab --metrics` what the examples count.
func TestServing(t *testing.T) {
	needLab(t)
	dir := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-s -w", "-o", dir+"/", "../../examples/kv", "../../examples/heat")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", build, err, out)
	}
	const am, nic, rank = "bobnet_am_requests_sent_total{", "bobnet_nic_transmit_frames_total{", "bobnet_mplite_eager_sent_total "
	long := []string{"perf", "--local", "--tests", "latency", "--rounds", "1000000", "--metrics", "127.0.0.1:0"}
	lab := []string{"lab", "-n", "2", "--metrics", "127.0.0.1:0", "--"}
	for _, tt := range []struct {
		name string
		args []string
		want []string
	}{
		{"PerfRing", append(long[:len(long):len(long)], "--stacks", "am2"), []string{am, nic}},
		{"PerfVMMC", append(long[:len(long):len(long)], "--stacks", "vmmc"), []string{"bobnet_vmmc_writes_total{", nic}},
		{"PerfShm", append(long[:len(long):len(long)], "--stacks", "mplite", "--link", "shm"), []string{rank, nic}},
		{"Kv", append(lab[:len(lab):len(lab)], filepath.Join(dir, "kv"), "-n", "1000000000"), []string{am, nic}},
		{"Heat", append(lab[:len(lab):len(lab)], filepath.Join(dir, "heat"), "-steps", "1000000000"), []string{rank, nic}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			run := startServing(t, tt.args)
			for i := range 2 {
				run.await(t, fmt.Sprintf("/rank/%d/metrics", i), tt.want)
			}
			if slices.Contains(tt.want, am) { // rank 0's or 1's translation, with what is under way
				run.await(t, fmt.Sprintf("/rank/%d/debug/bobnet", 1-strings.Count(tt.name, "Perf")), []string{"node 02:", "  FROM  INDEX  TO "})
			}
			run.interrupt(t)
		})
	}
}

// servingRun is a bobnet that serves metrics until it is interrupted.
type servingRun struct {
	cmd  *exec.Cmd
	base string // of what it serves
	log  *strings.Builder
	done chan struct{} // the log is complete
}

var targetsLine = regexp.MustCompile(`targets=(http://[^/ ]*)/targets`)

// startServing starts this program as bobnet, and waits until it serves.
func startServing(t *testing.T, args []string) *servingRun {
	t.Helper()
	program := copyProgram(t, t.TempDir())
	ctx, cancel := context.WithTimeout(t.Context(), 2*servingPatience)
	t.Cleanup(cancel)
	r := &servingRun{cmd: exec.CommandContext(ctx, program, append([]string{"-v"}, args...)...), log: &strings.Builder{}, done: make(chan struct{})}
	r.cmd.Cancel = func() error { return r.cmd.Process.Signal(syscall.SIGTERM) } // it removes its namespaces
	r.cmd.WaitDelay = servingPatience
	said, err := r.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(said)
	for lines.Scan() {
		r.log.WriteString(lines.Text() + "\n")
		if m := targetsLine.FindStringSubmatch(lines.Text()); m != nil {
			r.base = m[1]
			go func() {
				defer close(r.done)
				for lines.Scan() {
					r.log.WriteString(lines.Text() + "\n")
				}
			}()
			return r
		}
	}
	t.Fatalf("%v: %v, serves nothing and said:\n%s", r.cmd, r.cmd.Wait(), r.log)
	return nil
}

// await asks for a page until it has all of want, or the program has ended.
func (r *servingRun) await(t *testing.T, page string, want []string) {
	t.Helper()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	late := time.After(servingPatience)
	for {
		text := r.get(t.Context(), page)
		missing := ""
		for _, w := range want {
			if !strings.Contains(text, "\n"+w) {
				missing = w
			}
		}
		if missing == "" {
			return
		}
		select {
		case <-again.C:
		case <-r.done:
			t.Fatalf("%v: %v and said:\n%s", r.cmd, r.cmd.Wait(), r.log)
		case <-late:
			t.Fatalf("no %s at %s within %v:\n%s", missing, page, servingPatience, text)
		}
	}
}

// get returns a page; what is not served yet is an error's text.
func (r *servingRun) get(ctx context.Context, page string) string {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.base+page, nil)
	if err != nil {
		return err.Error()
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// interrupt ends the program as Ctrl-C does.
func (r *servingRun) interrupt(t *testing.T) {
	t.Helper()
	if err := r.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	<-r.done
	r.cmd.Wait() // its exit code tells
	if code := r.cmd.ProcessState.ExitCode(); code != 130 {
		t.Errorf("%v: interrupted, it ended with code %d and said:\n%s", r.cmd, code, r.log)
	}
}

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
		"02:62:6f:62:00:09": "0 sent, 0 answered, one in flight when interrupted\n",
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
