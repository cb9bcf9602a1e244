package lab

import (
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"

	"github.com/bobnet-go/bobnet/internal/keep"
	"golang.org/x/sys/unix"
)

// reexecEnv marks the environment of a program that ReexecIfNeeded started.
const reexecEnv = "BOBNET_LAB_REEXEC"

// reexecuted says that ReexecIfNeeded started this process. The mark itself
// must not reach the ranks, which may make labs of their own.
var reexecuted = func() bool {
	_, ok := os.LookupEnv(reexecEnv)
	os.Unsetenv(reexecEnv)
	return ok
}()

// ReexecIfNeeded makes sure that this process may call New. With the rights
// (root, as a rule) it does nothing and returns nil. Otherwise it runs the
// program again, same arguments and environment, as root of a new user
// namespace, passes signals on and exits with its exit code, so that it
// returns only in the new process. The user's files stay the user's there.
//
// A program calls it before it has read or printed anything. The error is
// that of Check.
func ReexecIfNeeded() error {
	if privileged() {
		return nil
	}
	if reexecuted {
		return forbidden("the new user namespace gives no capabilities")
	}
	cmd := &exec.Cmd{
		Path:   "/proc/self/exe",
		Args:   os.Args,
		Env:    append(os.Environ(), reexecEnv+"=1"),
		Stdin:  os.Stdin,
		Stdout: os.Stdout,
		Stderr: os.Stderr,
		// The session keeps the terminal from signalling it a second time.
		SysProcAttr: &syscall.SysProcAttr{Pdeathsig: unix.SIGKILL, Setsid: true},
	}
	userNamespace(cmd.SysProcAttr)
	// Pdeathsig goes by the thread that starts the process, not by its program.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2)
	if err := cmd.Start(); err != nil {
		signal.Stop(signals)
		return explain("making a user namespace", err)
	}
	go func() {
		for sig := range signals {
			cmd.Process.Signal(sig)
		}
	}()
	cmd.Wait()
	os.Exit(keep.ExitCode(cmd.ProcessState))
	return nil
}

// privileged reports whether this process has the capabilities that New needs.
func privileged() bool {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&hdr, &data[0]); err != nil {
		return false
	}
	const need = 1<<unix.CAP_SYS_ADMIN | 1<<unix.CAP_NET_ADMIN
	return data[0].Effective&need == need
}

// Check returns nil if this process could make a lab, with or without
// ReexecIfNeeded; otherwise an error that says how to allow it and wraps
// ErrForbidden. It makes the namespaces and lets them go at once.
func Check() error {
	flags := uintptr(unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWNS)
	attr := &syscall.SysProcAttr{Cloneflags: flags}
	if !privileged() {
		userNamespace(attr)
	}
	// A keeper whose standard input is empty ends at once.
	probe := &exec.Cmd{Path: "/proc/self/exe", Args: []string{keeperName}, Env: []string{}, SysProcAttr: attr}
	if err := probe.Run(); err != nil {
		return explain("making namespaces", err)
	}
	return nil
}

// userNamespace makes attr start a process as root of a new user namespace
// that stands for the caller's user and group outside.
//
// The kernel gives the files in /proc of a program with file capabilities
// (setcap) to root, and those of what it forks, so that the user could not write
// the map of the namespace. They are the user's own again when the process is
// dumpable, which any process may make itself; the new program has the
// capabilities of its namespace, and none from its file.
func userNamespace(attr *syscall.SysProcAttr) {
	unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0) // without it the start says what is missing
	attr.Cloneflags |= unix.CLONE_NEWUSER
	attr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}}
	attr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}}
}
