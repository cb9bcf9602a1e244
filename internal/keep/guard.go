// Package keep starts commands and ensures that their descendants end with them.
//
// It imports no other package of this module, and runs a rank in its init function. The reason is
// speed: hydra starts two processes of this program for each rank, and the initialization of all
// packages of bobnet would take twice as long as the work of these processes.
package keep

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// envGuard carries the guard's process number to the process that it guards.
const envGuard = "BOBNET_GUARD"

// lostSignal is the signal that the kernel sends to a guarded process when its guard ends. A guard
// never forwards this signal. The parent's process number cannot show the end: the signal is sent
// when the thread that started the process ends, and other threads of the guard may still run.
const lostSignal = unix.SIGPWR

// Guard makes the rest of this program run in a child process, where it returns. The parent becomes
// the child's guard. It forwards signals, waits for the child, kills the remaining descendants,
// calls last (if it is not nil), and exits with the child's exit code.
//
// Each process of the pair adopts the orphans among its descendants. So if SIGKILL ends one of
// them, the other one can kill all processes that ranks have started, in any session. Lost notifies
// the child that the guard has ended.
func Guard(last func(code int)) error {
	if text, guarded := os.LookupEnv(envGuard); guarded {
		os.Unsetenv(envGuard) // ranks must not inherit it
		signals := make(chan os.Signal, 1)
		signal.Notify(signals, lostSignal)
		if os.Getppid() != pidOf(text) {
			return ErrGuardLost
		}
		go func() {
			<-signals
			close(lost)
		}()
		Adopt()
		return nil
	}
	parent := os.Getppid()
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, passedOn...)
	runtime.LockOSThread() // the child gets a signal when the thread that started it ends
	Adopt()
	own, err := os.Executable()
	if err != nil {
		return fmt.Errorf("guard: %w", err)
	}
	child := &Group{Cmd: &exec.Cmd{
		Path: own, Args: os.Args, Env: append(os.Environ(), envGuard+"="+strconv.Itoa(os.Getpid())),
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		// A signal to the guard's process group does not reach the child. The child is in the guard's
		// session, so if it is stopped, the kernel continues it when the guard ends, and it gets the
		// signal.
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: lostSignal},
	}}
	if err := child.Start(); err != nil {
		return fmt.Errorf("guard: %w", err)
	}
	go func() {
		for sig := range signals {
			if os.Getppid() != parent { // see Rank
				sig = unix.SIGKILL
			}
			child.Signal(sig.(syscall.Signal))
		}
	}()
	child.Reap()
	KillLeft(Grace)
	code := ExitCode(child.ProcessState)
	if last != nil {
		last(code)
	}
	os.Exit(code)
	return nil
}

// passedOn lists the signals that a guard forwards to its child.
var passedOn = []os.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGTERM, unix.SIGUSR1, unix.SIGUSR2}

// ErrGuardLost reports that this process's guard has ended.
var ErrGuardLost = errors.New("guard: the guard of this process has ended")

// Grace is the time that processes get to end before they are abandoned.
const Grace = 2 * time.Second

// lost is closed when the guard has ended.
var lost = make(chan struct{})

// Lost is closed when this process had a guard that has ended.
func Lost() <-chan struct{} { return lost }

func pidOf(text string) int {
	pid, _ := strconv.Atoi(text) // 0 is not a valid parent
	return pid
}
