package launch

import (
	"os/exec"
	"sync"
	"syscall"

	"github.com/bobnet-go/bobnet/internal/lab"
	"golang.org/x/sys/unix"
)

// group is a command that leads a process group, with what it has started. It may be shared
// between goroutines once the command has been started.
type group struct {
	*exec.Cmd

	mu     sync.Mutex
	reaped bool // the number may be that of another group
}

// signal sends a signal to the whole group, as long as its number cannot be another's.
func (g *group) signal(sig syscall.Signal) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.reaped {
		unix.Kill(-g.Process.Pid, sig)
	}
}

// reap waits for the command, whose result it returns. From then on the group gets no
// signals. Nobody else calls Wait.
func (g *group) reap() error {
	lab.AwaitEnd(g.Process.Pid)
	g.mu.Lock()
	g.reaped = true
	g.mu.Unlock()
	return g.Wait()
}
