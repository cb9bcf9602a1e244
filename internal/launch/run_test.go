package launch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/doctor"
	"github.com/bobnet-go/bobnet/internal/keep"
	"github.com/bobnet-go/bobnet/internal/pmi"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/vipl"
	"golang.org/x/sys/unix"
)

// roleEnv makes the test binary play another program.
const roleEnv = "LAUNCH_TEST_ROLE"

const version = "test"

func TestMain(m *testing.M) {
	var err error
	bind := len(os.Args) > 2 && os.Args[1] == bindVerb
	if role := os.Getenv(roleEnv); !bind && (role == "node" || role == "" && filepath.Base(os.Args[0]) == "bobnet") {
		if err := keep.Guard(nil); err != nil {
			panic(err)
		}
	}
	switch role := os.Getenv(roleEnv); {
	case bind:
		var code int
		code, err = Bind(os.Args[2:])
		fmt.Fprintln(os.Stderr, err)
		os.Exit(code)
	case role != "station" && filepath.Base(os.Args[0]) == "bobnet" || role == "node":
		os.Unsetenv(roleEnv)
		err = ServeNode(os.Stdin, os.Stdout, &Inventory{Protocol: Protocol, Version: version, Clock: time.Now().UnixNano(), CPUs: runtime.NumCPU(), Interface: "eth0"}, nil)
	case role == "station":
		cfg := &vipl.Config{Interface: vethtest.Name, Spin: -1}
		err = ServeNode(os.Stdin, os.Stdout, Look(version, cfg, ""), cfg)
	case role == "old node":
		err = ServeNode(os.Stdin, os.Stdout, &Inventory{Protocol: Protocol, Version: "old", Clock: time.Now().UnixNano()}, nil)
	case role == "liar":
		err = lie()
	case role == "goner":
		err = leave(os.Getenv(lieEnv))
	case role == "head":
		os.Unsetenv(roleEnv)
		err = config(os.Args[1:]...).Run(context.Background())
	case role == "hydra head":
		os.Unsetenv(roleEnv)
		err = hydraHead(os.Args[1], os.Args[2], os.Args[3:])
	case role == "rank":
		err = exchange()
	default:
		os.Setenv("GORACE", "atexit_sleep_ms=0") // for all these processes
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// local is an ssh that runs everything here.
const local = roleEnv + `=node exec sh -c "$1"`

// config runs a command as two ranks on each of two hosts, one of which is reached by ssh.
func config(argv ...string) *Config {
	own, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return &Config{Version: version, Hosts: []Host{{"localhost", 2}, {"other", 2}}, N: 4, By: ByCore, Argv: argv, SSH: []string{"sh", "-c", local},
		Program: own, Own: own, Timeout: time.Minute, Stdout: io.Discard, Stderr: io.Discard}
}

// script runs a shell script as every rank.
func script(ctx context.Context, text string) (stdout, stderr string, err error) {
	var out, errOut bytes.Buffer
	c := config("sh", "-c", text)
	c.Stdout, c.Stderr = &out, &errOut
	err = c.Run(ctx)
	return out.String(), errOut.String(), err
}

// TestOutput: each rank has its place and its environment, and its lines begin with its
// number.
func TestOutput(t *testing.T) {
	t.Setenv("LAUNCH_TEST_TAKEN", "a b'c")
	t.Setenv("SLURM_PROCID", "77")
	out, errOut, err := script(t.Context(), `echo "$BOBNET_RANK $PMI_RANK of $BOBNET_SIZE $PMI_SIZE, $MPI_LOCALRANKID of $MPI_LOCALNRANKS here: $LAUNCH_TEST_TAKEN"; [ "$PMI_JOBID" = "$BOBNET_JOB" ] && echo same >&2`)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	slices.Sort(lines)
	for rank, line := range lines {
		if want := fmt.Sprintf("[%d] %d %d of 4 4, %d of 2 here: a b'c", rank, rank, rank, rank%2); line != want {
			t.Errorf("%q, want %q", line, want)
		}
	}
	if len(lines) != 4 || strings.Count(errOut, "] same\n") != 4 {
		t.Errorf("printed\n%s%s", out, errOut)
	}
}

// TestOutputBlocked: a job whose output nobody takes can be interrupted.
func TestOutputBlocked(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := config("sh", "-c", "while :; do echo more; done")
	block := make(blocked)
	defer close(block)
	c.Stdout = block
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	block <- struct{}{} // the first line
	cancel()
	select {
	case err := <-ended:
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("it waits for somebody to take its output")
	}
}

// blocked is a writer that waits for something to be sent, each time.
type blocked chan struct{}

func (b blocked) Write(p []byte) (int, error) {
	<-b
	return len(p), nil
}

// forever is the rest of a script that does not end by itself.
const forever = ` while :; do sleep 1000; done`

// TestExit: the first rank to fail ends the others, and the worst code counts; also on
// another host, by a signal, and where the command cannot be run.
func TestExit(t *testing.T) {
	ready := t.TempDir() + "/ready"
	for _, tc := range []struct {
		name, text string
		says       string // empty: no failure
		code       int
	}{
		{"well", "exit 0", "", 0},
		{"one fails", `[ $BOBNET_RANK = 1 ] && exit 3;` + forever, "rank 1 on host localhost failed first: exit status 3", 3},
		{"one there fails", `[ $BOBNET_RANK = 2 ] && exit 4;` + forever, "rank 2 on host other failed first: exit status 4", 4},
		{"a later one is worse", `case $BOBNET_RANK in 0) trap "exit 9" TERM; : >` + ready + `; while :; do sleep 0.05; done;; 1) while [ ! -e ` + ready + ` ]; do sleep 0.01; done; exit 3;; esac;` + forever,
			"rank 1 on host localhost failed first: exit status 3", 9},
		{"all fail", `exit $((BOBNET_RANK + 4))`, "failed first", 0},
		{"killed", `[ $BOBNET_RANK = 3 ] && kill -9 $$;` + forever, "signal: killed", 137},
		{"ignores SIGTERM", `[ $BOBNET_RANK = 0 ] && exit 7; trap "" TERM;` + forever, "exit status 7", 7},
	} {
		_, errOut, err := script(t.Context(), tc.text)
		var exit *ExitError
		switch {
		case tc.says == "" && err != nil:
			t.Errorf("%s: %v\n%s", tc.name, err, errOut)
		case tc.says != "" && (!errors.As(err, &exit) || !strings.Contains(err.Error(), tc.says) || tc.code != 0 && exit.Code != tc.code):
			t.Errorf("%s: %v, want %q with code %d\n%s", tc.name, err, tc.says, tc.code, errOut)
		}
	}
	for argv, code := range map[string]int{"no such command": 127, "/etc/passwd": 126} {
		var exit *ExitError
		if err := config(argv).Run(t.Context()); !errors.As(err, &exit) || exit.Code != code || !strings.Contains(err.Error(), "could not be started") {
			t.Errorf("%s: %v, want code %d", argv, err, code)
		}
	}
}

// exchange is a rank that meets the others by PMI-1.
func exchange() error {
	ctx := context.Background()
	says := map[string]string{"garbage": "no line of PMI\n", "abort by 256": "cmd=init pmi_version=1 pmi_subversion=1\ncmd=abort exitcode=256\n"}
	if text := says[os.Getenv("LAUNCH_TEST_END")]; text != "" && os.Getenv(pmi.EnvRank) == "3" {
		if _, err := os.NewFile(rankFD, "pmi").Write([]byte(text)); err != nil {
			return err
		}
		return unix.Pause() // until the job is ended
	}
	c, err := pmi.Open(ctx, os.Getenv)
	if err != nil {
		return err
	}
	for round := range 3 {
		if err := c.Put(ctx, fmt.Sprintf("%d-%d", round, c.Rank()), fmt.Sprint("rank", c.Rank())); err != nil {
			return err
		}
		if round == 1 && c.Rank() == 3 {
			switch os.Getenv("LAUNCH_TEST_END") {
			case "abort":
				return c.Abort(9)
			case "leave":
				return nil
			case "node dies":
				return unix.Kill(os.Getppid(), unix.SIGKILL)
			}
		}
		if err := c.Barrier(ctx); err != nil {
			return err
		}
		for other := range c.Size() {
			if v, err := c.Get(ctx, fmt.Sprintf("%d-%d", round, other)); err != nil || v != fmt.Sprint("rank", other) {
				return fmt.Errorf("rank %d has put %q: %w", other, v, err)
			}
		}
	}
	m, err := c.Get(ctx, "PMI_process_mapping")
	if err != nil || m != "(vector,(0,1,2),(1,1,2))" {
		return fmt.Errorf("mapping %q: %w", m, err)
	}
	return c.Finalize(ctx)
}

// TestPMI: ranks of two hosts find by PMI-1 what the others have put; and a rank that
// aborts, leaves while others wait, sends garbage, or whose node dies, ends the job, which
// names it.
func TestPMI(t *testing.T) {
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		end, says string
		code      int
	}{
		{"", "", 0},
		{"abort", "rank 3 on host other failed first: it aborted the job with exit code 9", 9},
		{"abort by 256", "rank 3 on host other failed first: it aborted the job with exit code 1", 1},
		{"leave", "rank 3 on host other failed first: it ended while others wait for it in a barrier", 1},
		{"garbage", "rank 3: pmi: invalid PMI-1 line", 1},
		{"node dies", "host other failed first: connection lost", 1},
	} {
		var errOut bytes.Buffer
		c := config("env", roleEnv+"=rank", "LAUNCH_TEST_END="+tc.end, own)
		c.Stderr = &errOut
		err := c.Run(t.Context())
		var exit *ExitError
		switch {
		case tc.says == "" && err != nil:
			t.Errorf("%v\n%s", err, &errOut)
		case tc.says != "" && (!errors.As(err, &exit) || !strings.Contains(err.Error(), tc.says) || exit.Code < tc.code || exit.Code > 255):
			t.Errorf("%s: %v, want %q with code %d\n%s", tc.end, err, tc.says, tc.code, &errOut)
		}
	}
}

// TestDaemonSays: what a rank leaves behind in another session, with its output open, and goes
// on to write does not keep the job from ending.
func TestDaemonSays(t *testing.T) {
	t.Setenv("DIR", t.TempDir())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, errOut, err := script(ctx, `f=$DIR/$BOBNET_RANK; mkfifo $f; setsid sh -c "echo >$f; while echo daemon; do sleep 0.1; done" & read x <$f; echo mine`)
	if err != nil || strings.Count(out, "] mine\n") != 4 {
		t.Errorf("%v, want an end by itself, with a line of each rank:\n%s%s", err, out, errOut)
	}
}

// TestHostRefused: a host that cannot be reached, whose ssh hangs, that answers with
// something else, or has another version, is named, and nothing is started anywhere.
func TestHostRefused(t *testing.T) {
	mark := filepath.Join(t.TempDir(), "started")
	for _, tc := range []struct {
		name, ssh string
		timeout   time.Duration
		says      string
	}{
		{"refused", "echo 'Permission denied (publickey).' >&2; exit 255", time.Minute, "host other is unreachable: sh: exit status 255: Permission denied (publickey)."},
		{"not installed", "echo 'sh: 1: bobnet: not found' >&2; exit 127", time.Minute, " (install the same bobnet there, or set its path with --program): sh: 1: bobnet: not found"},
		{"not there", roleEnv + `=node exec sh -c "$1"`, time.Minute, "host other has no /no/such/bobnet (install the same bobnet there"},
		{"asks", "echo 'password:' >&2; exec sleep 1000", time.Second, "host other did not answer within 1s (does ssh prompt for something, or does the host hang?)"},
		{"other program", "yes", time.Minute, "not a bobnet node: more than"},
		{"other version", roleEnv + `='old node' exec sh -c "$1"`, time.Minute, "host other has bobnet old (protocol 3), this host has test"},
	} {
		c := config("touch", mark)
		c.Hosts, c.SSH, c.Timeout = []Host{{"other", 4}}, []string{"sh", "-c", tc.ssh}, tc.timeout
		if tc.name == "not there" {
			c.Program = "/no/such/bobnet"
		}
		if err := c.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "nothing was started: ") || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.says)
		}
		if findings := c.Survey(t.Context()); refusal(findings) == nil || !strings.Contains(refusal(findings).Error(), tc.says) {
			t.Errorf("%s: the survey finds %+v, want %q", tc.name, findings, tc.says)
		}
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("a rank was started")
	}
}

// TestInterrupted: when the context ends so do all ranks, and what they have started.
func TestInterrupted(t *testing.T) {
	fifo := newFIFO(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("Ctrl-C")
	go func() {
		fifo.started(t, 4)
		cancel(cause)
	}()
	c := config("sh", "-c", fifo.script)
	if err := c.Run(ctx); !errors.Is(err, cause) {
		t.Errorf("%v, want that it was interrupted", err)
	}
	fifo.ended(t)
	if err := c.Run(ctx); !errors.Is(err, cause) {
		t.Errorf("interrupted before the start: %v", err)
	}
}

// TestHeadKilled: when the head is killed nothing is left of the job on any host.
func TestHeadKilled(t *testing.T) {
	fifo := newFIFO(t)
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(own, "sh", "-c", fifo.script)
	cmd.Env = append(os.Environ(), roleEnv+"=head")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	fifo.started(t, 4)
	cmd.Process.Kill()
	cmd.Wait()
	fifo.ended(t)
}

// fifo is how a test knows that ranks and their children run: they hold it open.
type fifo struct {
	in, out *os.File // out keeps in from ending before the ranks have begun
	script  string   // of the ranks
}

func newFIFO(t *testing.T) *fifo {
	t.Helper()
	name := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	in, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close() })
	out, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { out.Close() })
	return &fifo{in, out, fmt.Sprintf(`exec 9>%s; sh -c 'echo started >&9; exec sleep 1000' & wait`, name)}
}

// started waits until so many ranks run.
func (f *fifo) started(t *testing.T, ranks int) {
	f.in.SetReadDeadline(time.Now().Add(time.Minute))
	for lines := 0; lines < ranks; {
		var b [256]byte
		n, err := f.in.Read(b[:])
		lines += bytes.Count(b[:n], []byte("\n"))
		if err != nil {
			t.Errorf("%d ranks have started: %v", lines, err)
			return
		}
	}
}

// ended waits until nobody holds the fifo.
func (f *fifo) ended(t *testing.T) {
	t.Helper()
	f.out.Close()
	f.in.SetReadDeadline(time.Now().Add(time.Minute))
	if _, err := io.Copy(io.Discard, f.in); err != nil {
		t.Errorf("something is left: %v", err)
	}
}

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

// TestKeyFile: the ranks on all hosts are told the key file that was asked for, and no key that
// the environment has in place of it.
func TestKeyFile(t *testing.T) {
	t.Setenv(vipl.EnvKey, "another")
	const text = `echo "<$BOBNET_KEY_FILE><$BOBNET_KEY>"`
	want := strings.Repeat("</etc/a key><>\n", 4)
	for _, engine := range []string{"ssh", "hydra"} {
		c := config("sh", "-c", text)
		run := (*Config).Run
		if engine == "hydra" {
			var mpiexec string
			c, mpiexec = withHydra(t, "sh", "-c", text)
			run = func(c *Config, ctx context.Context) error { return c.Hydra(ctx, mpiexec) }
		}
		var out, errOut bytes.Buffer
		c.KeyFile, c.Stdout, c.Stderr = "/etc/a key", &out, &errOut
		if err := run(c, t.Context()); err != nil {
			t.Fatalf("%s: %v\n%s", engine, err, &errOut)
		}
		lines := ""
		for line := range strings.Lines(out.String()) {
			lines += line[strings.Index(line, "<"):]
		}
		if lines != want {
			t.Errorf("%s: the ranks have\n%s", engine, &out)
		}
	}
}

// TestKeyFileMissing: a host that cannot read the key file is named, with what to do.
func TestKeyFileMissing(t *testing.T) {
	inv := Look(version, &vipl.Config{Driver: "shm"}, "/nonexistent/key")
	findings := Judge(version, []Answer{{Host: Host{Name: "b"}, Inv: inv, Arrived: inv.Clock}})
	for _, f := range findings {
		if f.Level == doctor.Fail && strings.Contains(f.Found, "/nonexistent/key: no such file") && f.Fix == "scp -p /nonexistent/key b:/nonexistent/key" {
			return
		}
	}
	t.Errorf("%+v", findings)
}
