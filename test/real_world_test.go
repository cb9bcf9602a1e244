package test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/lab"
	"github.com/bobnet-go/bobnet/internal/leaktest"
	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/vipl"
	"golang.org/x/sys/unix"
)

// The tests in files named real_* run processes in network namespaces that are
// joined by veth: a lab. The processes are this test binary itself, in a role,
// or the project's commands.

// roleEnv makes the test binary play another program.
const roleEnv = "BOBNET_TEST_ROLE"

// roles are the programs that it plays.
var roles = map[string]func(context.Context) error{
	"contention": contentionRole,
	"cut":        cutRole,
	"kill":       killRole,
	"killmany":   killManyRole,
	"fault":      faultRole,
	"metrics":    metricsRole,
	"scraped":    scrapedRole,
	"allreduce":  allreduceRole,
	"barriers":   barriersRole,
	"start":      startRole,
	"join":       joinRole,
	"held":       heldRole,
	"am":         messagesMetricsRole,
	"vmmc":       vmmcRole,
	"written":    processMetricsRole,
	"asking":     askingRole,
	"writing":    writingRole,
	"amcard":     messagesCardRole,
	"vmmccard":   processCardRole,
	"rpc-server": killedServerRole,
	"rpc-client": killedClientRole,
	"stored":     storedRole,
	"stalled":    stalledRole,
}

// lasting are the roles of tests that wait for many things in turn, each as long as patience
// lets it.
var lasting = []string{"kill", "killmany", "scraped", "am", "vmmc", "written", "asking", "writing", "amcard", "vmmccard", "rpc-server", "rpc-client", "stored", "held", "stalled"}

// patience is how long anything here may take before the test calls it hung.
// A rank gives up a little earlier than the test that started it, so that it
// can say where it was.
const patience = 60 * time.Second

// errNoLab says why the tests that need a lab are skipped.
var errNoLab error

func TestMain(m *testing.M) {
	if role, ok := roles[os.Getenv(roleEnv)]; ok {
		limit := patience - 10*time.Second
		if slices.Contains(lasting, os.Getenv(roleEnv)) {
			limit = 5 * patience
		}
		if err := inTime(os.Stderr, limit, role); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	errNoLab = lab.ReexecIfNeeded()
	code := m.Run()
	removeCommands()
	os.Exit(code)
}

// inTime plays a role, whose context ends after a limit. Then it first writes where each
// goroutine is, so that the output of the test that fails says where the role hung. A role that
// does not heed its context ends all the same.
func inTime(w io.Writer, limit time.Duration, role func(context.Context) error) error {
	stuck := limit + patience/10
	timed, end := context.WithTimeout(context.Background(), stuck) // calls with limits of their own go by the deadline
	defer end()
	ctx, cancel := context.WithCancelCause(timed)
	defer cancel(nil)
	late := time.AfterFunc(limit, func() {
		fmt.Fprintf(w, "not done within %v; all goroutines:\n", limit)
		pprof.Lookup("goroutine").WriteTo(w, 2) // there is nobody else to tell
		cancel(context.DeadlineExceeded)
	})
	defer late.Stop()
	last := time.AfterFunc(stuck, func() { os.Exit(1) })
	defer last.Stop()
	err := role(ctx)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = fmt.Errorf("%w after %v: %w", cause, limit, err)
	}
	return err
}

// TestInTime: a role that hangs is ended, and has said where it was.
func TestInTime(t *testing.T) {
	var said strings.Builder
	err := inTime(&said, 10*time.Millisecond, func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	})
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(said.String(), "TestInTime") {
		t.Errorf("a role that hangs ends with %v and says %q", err, &said)
	}
}

// newLab makes a lab that ends with the test. It skips the test where the
// system forbids labs, and only there.
func newLab(t testing.TB, cfg lab.Config) *lab.Lab {
	t.Helper()
	needLab(t)
	cfg.Log = slog.New(slog.DiscardHandler)
	l, err := lab.New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func needLab(t testing.TB) {
	t.Helper()
	if errors.Is(errNoLab, lab.ErrForbidden) {
		need.Skip(t, "CAP_SYS_ADMIN and CAP_NET_ADMIN: %v", errNoLab)
	}
	if errNoLab != nil {
		t.Fatal(errNoLab)
	}
}

// config is that of a rank in a lab, for roles that change something in it.
func config() *mplite.Config {
	rank, _ := strconv.Atoi(os.Getenv(job.EnvRank))
	size, _ := strconv.Atoi(os.Getenv(job.EnvSize))
	return &mplite.Config{Config: job.Config{Job: os.Getenv(job.EnvJob), Rank: rank, Size: size, Interface: os.Getenv(vipl.EnvInterface)}}
}

// player is a rank that plays a role.
type player struct {
	*lab.Proc
	lines  printed // by its standard output
	stderr strings.Builder
}

// play starts all ranks of the lab in a role.
func play(t testing.TB, l *lab.Lab, role string, env ...string) []*player {
	t.Helper()
	all := make([]*player, l.Size())
	for rank := range all {
		all[rank] = playOne(t, l, rank, &exec.Cmd{Args: []string{role}}, append([]string{roleEnv + "=" + role}, env...)...)
	}
	return all
}

// playOne starts a rank of the lab: cmd, or without a path this program.
func playOne(t testing.TB, l *lab.Lab, rank int, cmd *exec.Cmd, env ...string) *player {
	t.Helper()
	if cmd.Path == "" {
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		cmd.Path = self
	}
	p := &player{lines: printed{more: make(chan struct{}, 1)}}
	r, w := io.Pipe()
	cmd.Stdout, cmd.Stderr = w, &p.stderr
	cmd.Env = append(os.Environ(), env...)
	var err error
	if p.Proc, err = l.Start(rank, cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // what ended it may be why another one failed
		select {
		case <-p.Done():
			if t.Failed() && p.stderr.Len() > 0 {
				t.Logf("rank %d has ended with code %d and said:\n%s", p.Rank(), p.Code(), &p.stderr)
			}
		default:
		}
	})
	go func() {
		<-p.Done()
		w.Close()
	}()
	go p.lines.read(r)
	return p
}

// line returns the next line that p prints. A rank that hangs is told to print
// where it does.
func (p *player) line(t testing.TB) string {
	t.Helper()
	line, ok, over := p.lines.next(patience)
	if over {
		t.Fatalf("rank %d ended with code %d before its next line and said %q", p.Rank(), p.Code(), &p.stderr)
	}
	if !ok {
		p.quit()
		t.Fatalf("rank %d hangs:\n%s", p.Rank(), &p.stderr)
	}
	return line
}

// quit ends p, which hangs, by SIGQUIT: the first one has it print what it waits for, if its role
// does so, and the second one the stacks of its goroutines.
func (p *player) quit() {
	for _, signal := range []unix.Signal{unix.SIGQUIT, unix.SIGQUIT, unix.SIGKILL} {
		p.Signal(signal)
		select {
		case <-p.Done():
			return
		case <-time.After(2 * time.Second):
		}
	}
	<-p.Done()
}

// end waits for p, which must succeed.
func (p *player) end(t testing.TB) {
	t.Helper()
	select {
	case <-p.Done():
	case <-time.After(patience):
		p.quit()
	}
	if p.Code() != 0 {
		t.Errorf("rank %d ended with code %d and said:\n%s", p.Rank(), p.Code(), &p.stderr)
	}
}

// buildCommands builds the project's commands, once for all tests, into a
// directory that TestMain removes.
var buildCommands = sync.OnceValues(func() (dir string, err error) {
	if dir, err = os.MkdirTemp("", "bobnet-test-"); err != nil {
		return "", err
	}
	args := []string{"build", noDebug, "-o", dir + string(filepath.Separator), "./cmd/bobnet"}
	for _, example := range []string{"barrier", "blackboard", "cg", "cholesky", "em3d", "fft3d", "grpc", "heat", "http", "kv", "notify", "pingpong", "raytrace", "rdma", "sort"} {
		args = append(args, "./examples/"+example)
	}
	build := exec.Command("go", args...)
	build.Dir = root
	commandsBuilt = dir
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%v: %w\n%s", build, err, out)
	}
	return dir, nil
})

// noDebug leaves out what a debugger needs, which takes half of the linker's time.
const noDebug = "-ldflags=-s -w"

// commandsBuilt is where buildCommands has put them, if it has been called.
var commandsBuilt string

func removeCommands() {
	if commandsBuilt != "" {
		os.RemoveAll(commandsBuilt)
	}
}

// commands returns the directory of the project's commands.
func commands(t testing.TB) string {
	t.Helper()
	dir, err := buildCommands()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// kill ends a program at once.
func kill(t *testing.T, p *lab.Proc) {
	t.Helper()
	if err := p.Signal(unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-p.Done()
}

// What programs of a lab must not leave.

// noSockets wants that no program has left a socket at any host of the lab.
func noSockets(t *testing.T, l *lab.Lab) {
	t.Helper()
	for rank := range l.Size() {
		leaktest.None(t, "sockets", func() (left []string) {
			if err := l.Exec(rank, func() error {
				left = sockets()
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			return left
		})
	}
}

// sockets returns those of the calling thread's network namespace that Bobnet's
// links are made of.
func sockets() (list []string) {
	for _, kind := range []string{"packet", "udp", "unix"} {
		text, err := os.ReadFile("/proc/thread-self/net/" + kind)
		if err != nil {
			list = append(list, err.Error())
			continue
		}
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		for _, line := range lines[1:] { // the first is the head
			list = append(list, kind+": "+line)
		}
	}
	return list
}

// closeLab closes the lab and returns what the network namespaces of its hosts were.
func closeLab(t *testing.T, l *lab.Lab) (namespaces []string) {
	t.Helper()
	for rank := range l.Size() {
		if err := l.Exec(rank, func() error {
			name, err := os.Readlink("/proc/thread-self/ns/net")
			namespaces = append(namespaces, name)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	return slices.Compact(namespaces)
}
