package launch

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// leave is a node that greets, and whose host goes then: at once, when it is told what to
// start, or without a word, so that its connection stays and nothing passes it.
func leave(when string) error {
	out := &writer{w: os.Stdout}
	if err := out.line(greeting, &message{Hello: &Inventory{Protocol: Protocol, Version: version, Clock: time.Now().UnixNano(), Interface: "eth0", MAC: "02:00:00:00:0b:ad"}}); err != nil {
		return err
	}
	switch when {
	case "silently":
		for { // until the head closes the connection
			if n, err := unix.Poll([]unix.PollFd{{Fd: 0}}, -1); n > 0 || err != unix.EINTR {
				return err
			}
		}
	case "told":
		if m, err := receive(bufio.NewReader(os.Stdin)); err != nil || m.Start == nil {
			return fmt.Errorf("told %+v: %w", m, err)
		}
	}
	os.Exit(255) // as ssh does when its host has gone
	return nil
}

// withGoner is a job whose second host goes after its greeting. The words of argv make what
// it is to start longer than a pipe holds.
func withGoner(when, script string) *Config {
	c := config("sh", "-c", script)
	for range 4 {
		c.Argv = append(c.Argv, strings.Repeat("x", 100_000))
	}
	c.SSH = []string{"sh", "-c", fmt.Sprintf("%s=goner %s=%s exec sh -c \"$1\"", roleEnv, lieEnv, when)}
	return c
}

// TestHostGoesAtStart: a host goes between its greeting and the start of its ranks. It is
// named, and the other host's ranks are ended.
func TestHostGoesAtStart(t *testing.T) {
	for _, when := range []string{"greeted", "told"} {
		fifo := newFIFO(t)
		err := withGoner(when, fifo.script).Run(t.Context())
		var exit *ExitError
		if !errors.As(err, &exit) || exit.Host != "other" || exit.Rank != -1 || exit.Code != 1 || !strings.Contains(err.Error(), "connection lost") {
			t.Errorf("%s: %v, want that host other has gone", when, err)
		}
		fifo.ended(t)
	}
}

// loses runs a job whose host other goes, or says nothing, and checks what it says of that.
func loses(t *testing.T, name, says string, c *Config, run func(*Config) error) {
	t.Helper()
	ended := make(chan error, 1)
	c.Silence = 2 * time.Second
	go func() { ended <- run(c) }()
	select {
	case err := <-ended:
		var exit *ExitError
		if !errors.As(err, &exit) || exit.Host != "other" || exit.Rank != -1 || exit.Code != 1 || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q of host other", name, err, says)
		}
	case <-time.After(time.Minute):
		t.Fatalf("%s: it waits for the host that has gone", name)
	}
}

func overSSH(t *testing.T) func(*Config) error {
	return func(c *Config) error { return c.Run(t.Context()) }
}

// TestHostGoesSilently: a host goes without a word, and takes nothing of what it is to start,
// or stops when its ranks run. It is named, and the other host's ranks are ended.
func TestHostGoesSilently(t *testing.T) {
	fifo := newFIFO(t)
	const says = "no keep-alive for 2s"
	loses(t, "gone", says, withGoner("silently", fifo.script), overSSH(t))
	fifo.ended(t)
	fifo = newFIFO(t)
	one := strings.NewReplacer("sh -c", "exec sh -c", "& wait", "").Replace(fifo.script) // nothing else ends with its node
	loses(t, "stopped", says, config("sh", "-c", "[ $BOBNET_RANK = 3 ] && kill -s STOP $PPID; "+one), overSSH(t))
	fifo.ended(t)
}

// TestHydraHostGoes: a host goes whose ranks hydra has started, with its connection, or without
// a word, when it is hydra that would wait for ever. It is named, and all ranks are ended.
func TestHydraHostGoes(t *testing.T) {
	for when, says := range map[string]string{"greeted": "connection lost", "silently": "no keep-alive for 2s"} {
		fifo := newFIFO(t)
		c, mpiexec := withHydra(t, "sh", "-c", fifo.script)
		ssh := strings.Replace(fakeSSH, roleEnv+"=node", roleEnv+"=goner "+lieEnv+"="+when, 1)
		if err := os.WriteFile(c.SSH[0], []byte(ssh), 0o700); err != nil {
			t.Fatal(err)
		}
		loses(t, when, says, c, func(c *Config) error { return c.Hydra(t.Context(), mpiexec) })
		fifo.ended(t)
	}
}

// TestHostsQuiet: hosts whose ranks say nothing for longer than a host may are not lost, and
// neither are those that are not listened to for so long because nobody takes the output.
func TestHostsQuiet(t *testing.T) {
	late := newFIFO(t)
	c := config("sh", "-c", "[ $BOBNET_RANK != 0 ] || echo first; sleep 4; [ $BOBNET_RANK != 2 ] || echo >"+late.in.Name())
	out := &stuck{entered: make(chan struct{}), leave: make(chan struct{})}
	c.Stdout, c.Silence = out, 2*time.Second
	ended := make(chan error, 1)
	go func() { ended <- c.Run(t.Context()) }()
	late.started(t, 1)
	select {
	case <-out.entered:
	default:
		t.Error("nothing has been printed")
	}
	close(out.leave)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestHostGoesBlocked: a host is lost, by what reaches it saying why, while nobody takes the
// job's output. The job ends all the same.
func TestHostGoesBlocked(t *testing.T) {
	name := filepath.Join(t.TempDir(), "go")
	if err := unix.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	c := config("sh", "-c", "while [ $BOBNET_RANK -lt 2 ]; do echo more; done; exec sleep 1000")
	// What it says is more than a pipe takes: when it has been said somebody has read of it.
	c.SSH = []string{"sh", "-c", fmt.Sprintf(`exec 4<&0; %s=node sh -c "$1" <&4 4<&- & exec 4<&-; read word <%s; head -c 65537 /dev/zero >&2; kill -s KILL -- -$$`, roleEnv, name)}
	out := &stuck{entered: make(chan struct{}), leave: make(chan struct{})}
	defer close(out.leave)
	c.Stdout = out
	ended := make(chan error, 1)
	go func() { ended <- c.Run(t.Context()) }()
	<-out.entered
	if err := os.WriteFile(name, []byte("go\n"), 0); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		var exit *ExitError
		if !errors.As(err, &exit) || exit.Host != "other" || exit.Rank != -1 {
			t.Errorf("%v, want that host other has gone", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("it waits for somebody to take its output")
	}
}

// stuck is a writer that says when it is first called, and then waits.
type stuck struct {
	once           sync.Once
	entered, leave chan struct{}
}

func (s *stuck) Write(b []byte) (int, error) {
	s.once.Do(func() { close(s.entered) })
	<-s.leave
	return len(b), nil
}

// TestTailBlocked: what a command has said is known while nobody takes what is passed on.
func TestTailBlocked(t *testing.T) {
	said, pass := &tail{}, &stuck{entered: make(chan struct{}), leave: make(chan struct{})}
	said.passOn(pass)
	wrote := make(chan struct{})
	go func() {
		defer close(wrote)
		said.Write([]byte("dying\n"))
	}()
	<-pass.entered
	text := make(chan string, 1)
	go func() { text <- said.String() }()
	select {
	case got := <-text:
		if got != "dying" {
			t.Errorf("%q has been said", got)
		}
	case <-time.After(time.Minute):
		t.Error("it waits for somebody to take what is passed on")
	}
	close(pass.leave)
	<-wrote
}

// TestSilentHostNamed: a rank fails because it misses one on a host that has gone, before
// that host has been silent for long enough to be lost. The host is named, and for how long
// nothing was heard of it.
func TestSilentHostNamed(t *testing.T) {
	err := withGoner("silently", "exit 3").Run(t.Context())
	var exit *ExitError
	if !errors.As(err, &exit) || len(exit.Silent) != 1 || exit.Silent[0].Host != "other" || exit.Silent[0].For < grace {
		t.Fatalf("%v, want that host other was silent", err)
	}
	for _, want := range []string{"on host localhost failed first: exit status 3", "; host other has sent nothing for "} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q says nothing of %q", err, want)
		}
	}
}

// TestSilentHostLost: a rank fails, and the connection to the host that it misses ends while the other ranks are
// being ended, as that of ssh does by its own keep-alive. The host is named, and for how long nothing was heard of it.
// A host that ends in time after the failure is not named.
func TestSilentHostLost(t *testing.T) {
	for quiet, want := range map[time.Duration]bool{10 * time.Second: true, 0: false} {
		h := &head{cfg: &Config{}, left: 1}
		h.failure = &ExitError{Rank: 0, Host: "localhost", State: "exit status 3", Code: 3}
		h.stopped = h.failure
		r := &remote{host: Host{Name: "other"}, ranks: []int{1}, running: map[int]bool{1: true}, said: &tail{}, hears: &hearing{}}
		h.nodes = []*remote{r}
		r.hears.last.Store(time.Now().Add(-quiet).UnixNano())
		h.lose(r, io.EOF)
		if has := strings.Contains(h.stopped.Error(), "; host other has sent nothing for 10s"); has != want || h.left != 0 {
			t.Errorf("quiet for %v: %v, %d ranks left", quiet, h.stopped, h.left)
		}
	}
}

// TestNamedHost: the error of a rank names its peer by a MAC address only. The head says which host
// has it.
func TestNamedHost(t *testing.T) {
	const lost = "; its last error names 02:00:00:00:0b:ad, which is host other (to check for lost frames between these hosts, try: bobnet doctor --host localhost,other)"
	err := withGoner("silently", "echo 02:00:00:00:00:77; echo no answer from 02-00-00-00-0B-AD:1025 for 10s >&2; exit 3").Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "failed first: exit status 3; worst exit code 3"+lost) {
		t.Error(err)
	}
	if err := withGoner("silently", "echo 02:00:00:00:0b:ad; echo 02:00:00:00:00:77 >&2; exit 3").Run(t.Context()); err == nil || strings.Contains(err.Error(), "names") {
		t.Error(err)
	}
	failed := make(chan *HydraError, 1)
	hosts := []Answer{{Host: Host{"localhost", 1}, Inv: &Inventory{}}, {Host: Host{"other", 1}, Inv: &Inventory{MAC: "02:00:00:00:0b:ad"}}}
	f := &failing{to: io.Discard, first: failed, named: newNamed(hosts, []int{0, 1})}
	io.WriteString(f, "[1] no answer from 02:00:00:00:0b:ad/1025\n[0] no answer from 02:00:00:00:0b:")
	io.WriteString(f, "ad/1025\n[0] bobnet run: rank 0 on host x ended with exit code 3, which ends the job\n")
	if err := <-failed; err.Error() != "run: rank 0 on host x failed first: exit code 3"+lost {
		t.Error(err)
	}
}

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
		for engine, run := range map[string]func(t *testing.T, text string) error{
			"ssh":   func(t *testing.T, text string) error { _, _, err := script(t.Context(), text); return err },
			"hydra": func(t *testing.T, text string) error { _, err := byHydra(t, text); return err },
		} {
			t.Run(engine+" "+name, func(t *testing.T) {
				left := newFIFO(t)
				err := run(t, `exec 9>`+left.in.Name()+`; trap "" TERM; setsid sh -c 'echo started >&9; setsid sleep 1000 & exec sleep 1000' & sleep 1; [ $BOBNET_RANK != 3 ] || kill -s KILL `+which+`; wait`)
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
