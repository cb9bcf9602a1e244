package keep

import (
	"errors"
	"os"
	"os/exec"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Group is a command that leads a process group, with what it has started in that. Goroutines
// may share it once the command has been started.
type Group struct {
	*exec.Cmd

	mu     sync.Mutex
	deaf   bool // gets no signals: the number may become that of another group
	reaped bool
}

// Signal sends a signal to the whole group, as long as its number cannot be another's.
func (g *Group) Signal(sig syscall.Signal) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.deaf {
		unix.Kill(-g.Process.Pid, sig)
	}
}

// Has reports whether pid is the number of the command, which has not been reaped.
func (g *Group) Has(pid int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return !g.reaped && g.Process.Pid == pid
}

// Reap waits for the command, whose result it returns. From then on the group gets no
// signals. Nobody else calls Wait.
func (g *Group) Reap() error {
	AwaitEnd(g.Process.Pid)
	g.set(&g.deaf)
	defer g.set(&g.reaped) // not before: until then ReapOrphans leaves the command to Wait
	return g.Wait()
}

func (g *Group) set(flag *bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	*flag = true
}

// AwaitEnd returns when a child of this process has ended, and leaves it to be waited for:
// until then its number cannot be another's.
func AwaitEnd(pid int) {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// ExitCode returns the exit code that a shell reports for state: 128 plus the signal for a
// process that a signal has killed.
func ExitCode(state *os.ProcessState) int {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return state.ExitCode()
}

// LookUp finds the file of a command. If it fails, code is the exit code of a shell that
// fails so.
func LookUp(command string) (path string, code int, err error) {
	if path, err = exec.LookPath(command); err == nil {
		return path, 0, nil
	}
	if errors.Is(err, os.ErrPermission) {
		return "", 126, err
	}
	return "", 127, err
}
