package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bobnet-go/bobnet/internal/leaktest"
	"golang.org/x/sys/unix"
)

// script runs a shell script as every rank and returns the output, sorted,
// because ranks run in any order.
func script(ctx context.Context, t *testing.T, l *Lab, text string, opts RunOptions) (string, error) {
	t.Helper()
	var out bytes.Buffer
	opts.Stdout, opts.Stderr = &out, &out
	err := l.Run(ctx, []string{"sh", "-c", text}, opts)
	lines := slices.Sorted(strings.Lines(out.String()))
	return strings.Join(lines, ""), err
}

// TestWorstCode: the first failure ends all, and the worst exit code counts,
// but not the ends that this brings about.
func TestWorstCode(t *testing.T) {
	l := newLab(t, Config{N: 3})
	const forever = `trap "" INT; sleep 1000 & wait`
	for _, tt := range []struct {
		name, script string
		rank, code   int
	}{
		{"one fails", `[ $BOBNET_RANK = 1 ] && exit 3;` + forever, 1, 3},
		{"all fail", `exit $((BOBNET_RANK + 4))`, -1, 6},
		{"one is killed", `[ $BOBNET_RANK = 2 ] && kill -9 $$;` + forever, 2, 137},
		{"one is terminated", `[ $BOBNET_RANK = 2 ] && kill -TERM $$;` + forever, 2, 143},
		{"one fails, one fails by that", `trap "exit 9" TERM; [ $BOBNET_RANK = 0 ] && { read x <$FIFO; exit 5; }; [ $BOBNET_RANK = 1 ] && echo >$FIFO;` + forever, 0, 9},
		{"not at once", `[ $BOBNET_RANK = 1 ] && { read x <$FIFO; exit 2; }; [ $BOBNET_RANK = 0 ] && echo >$FIFO; :`, 1, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			fifo := filepath.Join(t.TempDir(), "fifo")
			if err := unix.Mkfifo(fifo, 0o600); err != nil {
				t.Fatal(err)
			}
			out, err := script(t.Context(), t, l, tt.script, RunOptions{Env: []string{"FIFO=" + fifo}})
			var exit *ExitError
			if !errors.As(err, &exit) {
				t.Fatalf("Run returned %v (output %q), want an ExitError", err, out)
			}
			// "all fail" may be cut short by whoever is first.
			if tt.rank >= 0 && (exit.Rank != tt.rank || exit.Code != tt.code) || exit.Code > tt.code || exit.Code < 2 {
				t.Errorf("%v: want rank %d and code %d", exit, tt.rank, tt.code)
			}
		})
	}
	if out, err := script(t.Context(), t, l, "echo fine", RunOptions{}); err != nil || out != "fine\nfine\nfine\n" {
		t.Errorf("a job after failed ones: %q, %v", out, err)
	}
}

// TestRanksIgnoreSIGTERM: ranks that ignore SIGTERM are killed after the grace.
func TestRanksIgnoreSIGTERM(t *testing.T) {
	if testing.Short() {
		t.Skip("left out by -short: it takes the two seconds of grace")
	}
	l := newLab(t, Config{N: 2})
	mark := "LAB_TEST_MARK=" + newJob()
	const text = `[ $BOBNET_RANK = 1 ] && exit 7; trap "" TERM; while :; do sleep 1000; done`
	_, err := script(t.Context(), t, l, text, RunOptions{Env: []string{mark}})
	var exit *ExitError
	if !errors.As(err, &exit) || exit.Rank != 1 || exit.Code != 7 {
		t.Errorf("Run returned %v, want code 7 of rank 1", err)
	}
	leaktest.None(t, "processes", func() []string { return marked(mark) })
}

// TestCancel: a cancelled context ends the ranks, and its cause is reported.
func TestCancel(t *testing.T) {
	l := newLab(t, Config{N: 2})
	why := errors.New("changed my mind")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	go func() {
		r.Read(make([]byte, 1)) // a rank runs
		cancel(why)
	}()
	err = l.Run(ctx, []string{"sh", "-c", "echo; sleep 1000"}, RunOptions{Stdout: w})
	w.Close()
	if !errors.Is(err, why) {
		t.Errorf("Run returned %v, want the cause", err)
	}
}

// TestEnvironment: forwarded, added to, and right for each rank.
func TestEnvironment(t *testing.T) {
	t.Setenv("LAB_TEST_FORWARDED", "from the caller")
	t.Setenv(EnvRank, "77") // as in a lab in a lab
	l := newLab(t, Config{N: 2})
	const text = `echo "$BOBNET_RANK of $BOBNET_SIZE on $BOBNET_IFACE: $LAB_TEST_FORWARDED, $LAB_TEST_ADDED"`
	const want = "0 of 2 on bob0: from the caller, and more\n1 of 2 on bob0: from the caller, and more\n"
	out, err := script(t.Context(), t, l, text, RunOptions{Env: []string{"LAB_TEST_ADDED=and more"}})
	if err != nil || out != want {
		t.Errorf("got %v and\n%swant\n%s", err, out, want)
	}
	jobs := map[string]int{}
	for range 2 {
		out, err := script(t.Context(), t, l, `echo $BOBNET_JOB`, RunOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for name := range strings.Lines(out) {
			jobs[name]++
		}
	}
	if len(jobs) != 2 {
		t.Errorf("two jobs of two ranks have the names %v", jobs)
	}
}

// TestStdin: rank 0 reads the input, the others read nothing.
func TestStdin(t *testing.T) {
	l := newLab(t, Config{N: 3})
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	fmt.Fprint(w, "hello\n")
	w.Close()
	out, err := script(t.Context(), t, l, `echo "$BOBNET_RANK: $(cat)"`, RunOptions{Stdin: r})
	if want := "0: hello\n1: \n2: \n"; err != nil || out != want {
		t.Errorf("got %v and\n%swant\n%s", err, out, want)
	}
}

func TestNoSuchCommand(t *testing.T) {
	l := newLab(t, Config{N: 2})
	var wrong *exec.Error
	if err := l.Run(t.Context(), []string{"bobnet-no-such-command"}, RunOptions{}); !errors.As(err, &wrong) {
		t.Errorf("Run returned %v, want an exec.Error", err)
	}
	file := filepath.Join(t.TempDir(), "not-a-program")
	if err := os.WriteFile(file, []byte("\x7fELF nonsense"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := l.Run(t.Context(), []string{file}, RunOptions{}); !errors.Is(err, unix.ENOEXEC) {
		t.Errorf("Run returned %v, want ENOEXEC", err)
	}
	if err := l.Run(t.Context(), nil, RunOptions{}); err == nil {
		t.Error("Run took an empty command")
	}
}

// TestKilledRank: a test may kill -9 one rank; Close ends the rest.
func TestKilledRank(t *testing.T) {
	l := newLab(t, Config{N: 4})
	var procs []*Proc
	for rank := range l.Size() {
		p, err := l.Start(rank, exec.Command("sleep", "1000"))
		if err != nil {
			t.Fatal(err)
		}
		procs = append(procs, p)
	}
	if err := procs[2].Signal(unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := procs[2].Wait(); err == nil || procs[2].Code() != 137 || procs[2].Rank() != 2 {
		t.Errorf("rank %d ended with %v, code %d", procs[2].Rank(), err, procs[2].Code())
	}
	if err := procs[2].Signal(unix.SIGKILL); err != nil {
		t.Errorf("signalling a rank that has ended: %v", err)
	}
	l.Close()
	for _, p := range procs {
		<-p.Done()
		if p.Code() != 137 {
			t.Errorf("rank %d ended with code %d", p.Rank(), p.Code())
		}
	}
	if _, err := l.Start(0, exec.Command("true")); !errors.Is(err, ErrClosed) {
		t.Errorf("Start after Close: %v, want ErrClosed", err)
	}
}

// TestLeftovers: what a rank leaves in its session is killed with it. A daemon
// that went into another, with the rank's output open, holds up nobody and
// lives until Close.
func TestLeftovers(t *testing.T) {
	if testing.Short() {
		t.Skip("left out by -short: it takes the two seconds that the output of a daemon is waited for")
	}
	l := newLab(t, Config{N: 1})
	mark := "LAB_TEST_MARK=" + newJob()
	opts := RunOptions{Env: []string{mark}}
	if _, err := script(t.Context(), t, l, `sleep 1000 &`, opts); err != nil {
		t.Fatal(err)
	}
	leaktest.None(t, "processes", func() []string { return marked(mark) })

	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	opts.Env = append(opts.Env, "FIFO="+fifo)
	const daemon = `setsid sh -c "echo >$FIFO; exec sleep 1000" & read x <$FIFO; echo started`
	if out, err := script(t.Context(), t, l, daemon, opts); err != nil || out != "started\n" {
		t.Fatalf("got %q, %v", out, err)
	}
	if len(marked(mark)) == 0 {
		t.Error("the daemon ended with its rank")
	}
	l.Close()
	if left := marked(mark); len(left) > 0 {
		t.Errorf("Close left processes %v", left)
	}
}

// TestOrphans: the keeper reaps what loses its parent.
func TestOrphans(t *testing.T) {
	l := newLab(t, Config{N: 1})
	if _, err := script(t.Context(), t, l, `for i in 1 2 3; do (setsid true &); done`, RunOptions{}); err != nil {
		t.Fatal(err)
	}
	leaktest.None(t, "orphans", func() []string {
		keeper := fmt.Sprint(l.keeper.cmd.Process.Pid)
		var zombies []string
		stats, _ := filepath.Glob("/proc/[0-9]*/stat")
		for _, path := range stats {
			text, _ := os.ReadFile(path)
			_, rest, _ := strings.Cut(string(text), ") ")
			if f := strings.Fields(rest); len(f) > 1 && f[1] == keeper {
				zombies = append(zombies, path+": "+rest)
			}
		}
		return zombies
	})
}

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

// TestPerHost: ranks of one host share its namespace, its interface and its addresses,
// the last host has what is left, and each has what the caller adds for it.
func TestPerHost(t *testing.T) {
	l := newLab(t, Config{N: 3, PerHost: 2})
	if l.Topology() != Pair {
		t.Errorf("two namespaces are joined by %v, want a pair", l.Topology())
	}
	const text = `echo "$BOBNET_RANK of $BOBNET_SIZE $ADDED $(readlink /proc/self/ns/net) $(cat /sys/class/net/bob0/address)"`
	out, err := script(t.Context(), t, l, text, RunOptions{RankEnv: func(rank int) []string { return []string{"ADDED=" + l.Addr(rank).String()} }})
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	slices.Sort(lines)
	if len(lines) != 3 {
		t.Fatalf("got\n%s", out)
	}
	spaces := map[string]bool{}
	for rank, line := range lines {
		f := strings.Fields(line)
		if len(f) != 6 || f[0] != string(rune('0'+rank)) || f[2] != "3" || f[3] != l.Addr(rank).String() || f[5] != l.MAC(rank).String() {
			t.Errorf("rank %d says %q", rank, line)
			continue
		}
		spaces[f[4]] = true
		if err := l.Exec(rank, func() error { return checkInterface(l, rank) }); err != nil {
			t.Error(err)
		}
	}
	if len(spaces) != 2 || strings.Fields(lines[0])[4] != strings.Fields(lines[1])[4] {
		t.Errorf("the ranks are in the namespaces %v, want two, one of them for ranks 0 and 1", slices.Collect(maps.Keys(spaces)))
	}
}

// TestPerHostCut: a link is that of all ranks of its host, and a cut names them all.
func TestPerHostCut(t *testing.T) {
	cfg := Config{N: 4, PerHost: 2}
	for kind, texts := range map[Kind][]string{Flap: {"1", "0-2"}, Partition: {"0,2/1,3", "0"}} {
		cfg.Cuts = cuts(t, kind, texts...)
		for _, c := range cfg.Cuts {
			cfg.Cuts = []Cut{c}
			if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), "share a namespace") {
				t.Errorf("%v %v: %v", kind, c, err)
			}
		}
	}
	l := newLab(t, Config{N: 4, PerHost: 2, Cuts: cuts(t, Flap, "2,3")})
	if err := l.Cut(cuts(t, Flap, "2,3")...); err != nil {
		t.Fatal(err)
	}
	if l.wires.down[0] || !l.wires.down[1] {
		t.Errorf("links that are down: %v, want the second host's", l.wires.down)
	}
	if err := l.Cut(); err != nil {
		t.Fatal(err)
	}
}

// TestCycles makes labs of either topology, runs a job in each and closes
// them, again and again: no descriptor, process or namespace is left behind.
func TestCycles(t *testing.T) {
	needLab(t)
	var made []string
	leaktest.Run(t, 1, func(i int) error {
		l, err := New(t.Context(), Config{N: 2, Topology: Pair + Topology(i%2), Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			return err
		}
		made = append(made, l.namespaces(t)...)
		err = l.Run(t.Context(), []string{"true"}, RunOptions{Stdout: io.Discard, Stderr: io.Discard})
		return errors.Join(err, l.Close())
	})
	leaktest.None(t, "namespaces", func() []string { return leaktest.Namespaces(made) })
}
