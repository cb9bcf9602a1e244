package lab

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// keeperName is the argv[0] of a keeper.
const keeperName = "bobnet-keeper"

// init turns this process into a keeper if it was started as one. An init function cannot be
// forgotten: a program without the call would start itself as its own keeper, and so on.
func init() {
	if os.Args[0] == keeperName {
		holdNamespaces()
	}
}

// keeper is the first process of the ranks' process namespace. When it exits, the kernel kills all
// ranks.
type keeper struct {
	cmd  *exec.Cmd
	life *os.File // the write end of its standard input, close-on-exec
	pid  *os.File // the process, by descriptor: /proc may have other numbers
}

// startKeeper runs this program again as a keeper.
func startKeeper() (*keeper, error) {
	r, life, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	pidfd := -1
	k := &keeper{life: life, cmd: &exec.Cmd{
		Path:   "/proc/self/exe",
		Args:   []string{keeperName},
		Env:    []string{"GOMAXPROCS=1"},
		Stdin:  r,
		Stderr: os.Stderr,
		// A new session shields it from the terminal's signals.
		SysProcAttr: &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID, Setsid: true, PidFD: &pidfd},
	}}
	if err := k.cmd.Start(); err != nil {
		life.Close()
		return nil, fmt.Errorf("start a process namespace: %w", err)
	}
	if pidfd < 0 {
		k.release()
		k.wait()
		return nil, errors.New("pidfd not supported: Linux 5.8 or newer required")
	}
	k.pid = os.NewFile(uintptr(pidfd), keeperName)
	return k, nil
}

// enter makes children of the calling thread members of the namespace.
func (k *keeper) enter() error {
	if err := unix.Setns(int(k.pid.Fd()), unix.CLONE_NEWPID); err != nil {
		return fmt.Errorf("setns to the keeper's process namespace: %w", err)
	}
	return nil
}

// release ends the keeper, and with it every process of the namespace.
func (k *keeper) release() { k.life.Close() }

// wait returns when the keeper has ended, which is after every process of the
// namespace has ended and has been waited for.
func (k *keeper) wait() {
	k.cmd.Wait()
	if k.pid != nil {
		k.pid.Close()
	}
}

// holdNamespaces is the keeper: it waits for orphans, as the first process of every
// namespace must, until its standard input ends. It never returns.
func holdNamespaces() {
	signal.Ignore(unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT, unix.SIGPIPE)
	orphans := make(chan os.Signal, 1)
	signal.Notify(orphans, unix.SIGCHLD)
	go func() {
		io.Copy(io.Discard, os.Stdin)
		unix.Exit(0) // at once: nothing needs cleanup
	}()
	for ; ; <-orphans { // the first signal may have arrived before Notify
		for {
			pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
			if pid <= 0 && !errors.Is(err, unix.EINTR) {
				break
			}
		}
	}
}
