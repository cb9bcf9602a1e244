package keep

import (
	"errors"
	"os"
	"os/exec"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Group is a command that leads a process group, with the other processes of the group. Goroutines
// may share it after the command has been started.
type Group struct {
	*exec.Cmd

	mu     sync.Mutex
	deaf   bool // the group gets no more signals, because another group may get its number
	reaped bool
}

// Signal sends a signal to the whole group, unless another group may have its number.
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

// Reap waits for the command and returns its result. From then on the group gets no signals. No
// other code may call Wait.
func (g *Group) Reap() error {
	AwaitEnd(g.Process.Pid)
	g.set(&g.deaf)
	defer g.set(&g.reaped) // only after Wait: until then ReapOrphans must not reap the command
	return g.Wait()
}

func (g *Group) set(flag *bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	*flag = true
}

// AwaitEnd returns when a child of this process has ended. It does not reap the child, so no other
// process can get its number yet.
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

// LookUp finds the file of a command. If it fails, code is the exit code that a shell returns for
// this failure.
func LookUp(command string) (path string, code int, err error) {
	if path, err = exec.LookPath(command); err == nil {
		return path, 0, nil
	}
	if errors.Is(err, os.ErrPermission) {
		return "", 126, err
	}
	return "", 127, err
}
