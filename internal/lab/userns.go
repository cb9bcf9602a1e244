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

// reexecuted reports that ReexecIfNeeded started this process. The ranks must not inherit the mark
// itself, because they may create labs of their own.
var reexecuted = func() bool {
	_, ok := os.LookupEnv(reexecEnv)
	os.Unsetenv(reexecEnv)
	return ok
}()

// ReexecIfNeeded ensures that this process may call New. If the process has the permissions (usually
// as root), it returns nil. Otherwise it runs the program again, with the same arguments and
// environment, as root of a new user namespace. It forwards signals, and exits with the new process's
// exit code, so it returns only in the new process. The user's files still belong to the user there.
//
// A program must call it before it reads or prints anything. The error is that of Check.
func ReexecIfNeeded() error {
	if privileged() {
		return nil
	}
	if reexecuted {
		return forbidden("no capabilities in the new user namespace")
	}
	cmd := &exec.Cmd{
		Path:   "/proc/self/exe",
		Args:   os.Args,
		Env:    append(os.Environ(), reexecEnv+"=1"),
		Stdin:  os.Stdin,
		Stdout: os.Stdout,
		Stderr: os.Stderr,
		// In a new session it does not get the terminal's signals a second time.
		SysProcAttr: &syscall.SysProcAttr{Pdeathsig: unix.SIGKILL, Setsid: true},
	}
	userNamespace(cmd.SysProcAttr)
	// Pdeathsig depends on the thread that starts the process, not on its program.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2)
	if err := cmd.Start(); err != nil {
		signal.Stop(signals)
		return explain("create a user namespace", err)
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

// Check returns nil if this process could create a lab, with or without ReexecIfNeeded. Otherwise it
// returns an error that wraps ErrForbidden and contains a fix. It creates the namespaces and closes
// them at once.
func Check() error {
	flags := uintptr(unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWNS)
	attr := &syscall.SysProcAttr{Cloneflags: flags}
	if !privileged() {
		userNamespace(attr)
	}
	// A keeper whose standard input is empty ends at once.
	probe := &exec.Cmd{Path: "/proc/self/exe", Args: []string{keeperName}, Env: []string{}, SysProcAttr: attr}
	if err := probe.Run(); err != nil {
		return explain("create namespaces", err)
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
	unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0) // if this fails, starting the process reports the cause
	attr.Cloneflags |= unix.CLONE_NEWUSER
	attr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}}
	attr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}}
}
