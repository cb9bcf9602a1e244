package lab

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/keep"
	"github.com/bobnet-go/bobnet/internal/leaktest"
	"github.com/bobnet-go/bobnet/internal/need"
	"golang.org/x/sys/unix"
)

// labProgram is a program with a lab, to be killed. Its ranks, and what they
// start in the background and in sessions of their own, would run for long.
// On its output come the keeper's process number and, from each rank, its
// namespaces and "ready".
func labProgram() int {
	fail := func(err error) int {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := ReexecIfNeeded(); err != nil {
		return fail(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT)
	defer stop()
	l, err := New(ctx, Config{N: 3})
	if err != nil {
		return fail(err)
	}
	defer l.Close()
	fmt.Println("keeper", l.keeper.cmd.Process.Pid)
	const script = `sleep 1000 & (setsid sleep 1000 &) & readlink /proc/self/ns/net /proc/self/ns/pid; echo ready; wait`
	if err := l.Run(ctx, []string{"sh", "-c", script}, RunOptions{}); err != nil {
		return fail(err)
	}
	return 0
}

// victim is a running labProgram.
type victim struct {
	cmd        *exec.Cmd
	keeper     int
	namespaces []string
	mark       string
	pids       []string // of everything that it has started, at the beginning
	stderr     strings.Builder
}

// startVictim starts a labProgram and returns when its ranks are ready. attr
// may give it other rights.
func startVictim(t *testing.T, attr *syscall.SysProcAttr) *victim {
	t.Helper()
	v := &victim{mark: "LAB_TEST_MARK=" + rand.Text(), cmd: role("lab", attr)}
	v.cmd.Env = append(v.cmd.Env, v.mark)
	v.cmd.Stderr = &v.stderr
	v.cmd.WaitDelay = 10 * time.Second // should ranks survive it and hold the pipe
	out, err := v.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := v.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { v.cmd.Process.Kill() })
	lines := bufio.NewScanner(out)
	for ready := 0; ready < 3 && lines.Scan(); {
		switch line := lines.Text(); {
		case line == "ready":
			ready++
		case strings.HasPrefix(line, "keeper "):
			if v.keeper, err = strconv.Atoi(line[len("keeper "):]); err != nil {
				t.Fatal(err)
			}
		default:
			v.namespaces = append(v.namespaces, line)
		}
	}
	if len(v.namespaces) != 6 {
		io.Copy(io.Discard, out)
		v.cmd.Wait()
		t.Fatalf("the ranks are in namespaces %q; the lab said: %s", v.namespaces, &v.stderr)
	}
	v.pids = append(marked(v.mark), strconv.Itoa(v.keeper))
	if len(v.pids) < 1+3+3+1 {
		t.Fatalf("found only processes %v, want the lab, 3 ranks, 3 sleeps and the keeper", v.pids)
	}
	go io.Copy(io.Discard, out)
	return v
}

// gone waits until nothing of the victim is left.
func (v *victim) gone(t *testing.T) {
	t.Helper()
	leaktest.None(t, "processes and namespaces", func() []string {
		for _, pid := range v.pids {
			n, _ := strconv.Atoi(pid)
			unix.Wait4(n, nil, unix.WNOHANG, nil) // those that have become ours
		}
		return append(marked(v.mark), leaktest.Namespaces(v.namespaces)...)
	})
}

// TestKilledLab: kill -9 of the lab leaves no process, namespace or interface.
func TestKilledLab(t *testing.T) {
	needLab(t)
	v := startVictim(t, nil)
	if err := v.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	v.cmd.Wait()
	v.gone(t)
}

// TestKilledLabUnprivileged: the same as an ordinary user.
func TestKilledLabUnprivileged(t *testing.T) {
	v := startVictim(t, nobody(t))
	if err := v.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	v.cmd.Wait()
	v.gone(t)
}

// TestKilledKeeper: kill -9 of the keeper ends the ranks, and the lab says so.
func TestKilledKeeper(t *testing.T) {
	needLab(t)
	v := startVictim(t, nil)
	if err := unix.Kill(v.keeper, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := v.cmd.Wait(); err == nil || !strings.Contains(v.stderr.String(), "killed") {
		t.Errorf("the lab ended with %v, saying %q", err, &v.stderr)
	}
	v.gone(t)
}

// TestInterruptedLab: SIGINT to the lab ends everything in order, also through
// the user namespace's outer process.
func TestInterruptedLab(t *testing.T) {
	needLab(t)
	for name, attr := range map[string]func(*testing.T) *syscall.SysProcAttr{
		"privileged":   func(*testing.T) *syscall.SysProcAttr { return nil },
		"unprivileged": nobody,
	} {
		t.Run(name, func(t *testing.T) {
			v := startVictim(t, attr(t))
			if err := v.cmd.Process.Signal(unix.SIGINT); err != nil {
				t.Fatal(err)
			}
			v.cmd.Wait()
			if v.cmd.ProcessState.ExitCode() != 1 || !strings.Contains(v.stderr.String(), "job interrupted") {
				t.Errorf("the lab ended with %v, saying %q", v.cmd.ProcessState, &v.stderr)
			}
			v.gone(t)
		})
	}
}

// TestForbidden: where the system allows no user namespaces the error names
// the switch. The switch is that of a user namespace of the test's own.
func TestForbidden(t *testing.T) {
	needLab(t)
	attr := &syscall.SysProcAttr{}
	userNamespace(attr)
	out, err := role("forbid", attr).CombinedOutput()
	const want = "sudo sysctl -w user.max_user_namespaces="
	if err == nil || !strings.Contains(string(out), ErrForbidden.Error()) || !strings.Contains(string(out), want) {
		t.Errorf("ended with %v, saying %q; want the advice %q", err, out, want)
	}
}

// forbidProgram allows its own user namespace no others and runs labProgram
// without capabilities.
func forbidProgram() int {
	runtime.LockOSThread()
	err := os.WriteFile("/proc/sys/user/max_user_namespaces", []byte("0"), 0)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	const noRoot = 1 // SECBIT_NOROOT: user 0 gets nothing by exec
	if err := unix.Prctl(unix.PR_SET_SECUREBITS, noRoot, 0, 0, 0); err != nil {
		fmt.Println(err)
		return 1
	}
	lab := role("lab", nil)
	lab.Stdout, lab.Stderr = os.Stdout, os.Stderr
	lab.Run()
	return keep.ExitCode(lab.ProcessState)
}

// role returns the command that runs this program in another role.
func role(name string, attr *syscall.SysProcAttr) *exec.Cmd {
	return &exec.Cmd{
		Path:        "/proc/self/exe",
		Args:        []string{"lab.test"},
		Env:         append(os.Environ(), roleEnv+"="+name),
		Dir:         "/",
		SysProcAttr: attr,
	}
}

// nobody returns what starts a process without any rights.
func nobody(t *testing.T) *syscall.SysProcAttr {
	t.Helper()
	if os.Getuid() != 0 || reexecuted {
		need.Skip(t, "root, to become another user: every other test here has just run without root")
	}
	const id = 65534
	attr := &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: id, Gid: id}}
	check := role("check", attr)
	out, err := check.CombinedOutput()
	if err == nil {
		return attr
	}
	if keep.ExitCode(check.ProcessState) != skipCode {
		t.Fatalf("%v: %s", err, out)
	}
	need.Skip(t, "unprivileged user namespaces: %s", out)
	return nil
}

// skipCode is the exit code of checkProgram where the system forbids labs.
const skipCode = 77

// checkProgram finds out whether its user may have labs.
func checkProgram() int {
	err := Check()
	switch {
	case err == nil:
		return 0
	case errors.Is(err, ErrForbidden):
		fmt.Println(err)
		return skipCode
	}
	fmt.Println(err)
	return 1
}
