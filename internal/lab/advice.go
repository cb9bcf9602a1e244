package lab

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// obstacles are the switches by which systems forbid namespaces to users, as
// paths under /proc/sys: the value that forbids and one that allows.
var obstacles = []struct{ path, forbids, allows, why string }{
	{"kernel/apparmor_restrict_unprivileged_userns", "1", "0", "AppArmor withholds capabilities in user namespaces"},
	{"kernel/unprivileged_userns_clone", "0", "1", "user namespaces are for root only"},
	{"user/max_user_namespaces", "0", "15000", "no user namespaces are allowed"},
	{"user/max_net_namespaces", "0", "15000", "no network namespaces are allowed"},
	{"user/max_pid_namespaces", "0", "15000", "no process namespaces are allowed"},
	{"user/max_mnt_namespaces", "0", "15000", "no mount namespaces are allowed"},
}

// readOnlyProc is the advice against EROFS: nothing else that a lab does writes
// to a file.
const readOnlyProc = "/proc is mounted read-only, so that the users of a new namespace cannot be written there; " +
	"run it as root, which needs none, or allow it: sudo mount -o remount,rw /proc"

// explain turns err, met while doing what, into an error that says what to do
// about it where this package knows.
func explain(what string, err error) error {
	found := fmt.Sprintf("%s: %v", what, err)
	switch {
	case errors.Is(err, unix.EROFS):
		return fmt.Errorf("%w: %s\n%s", ErrForbidden, found, readOnlyProc)
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES), errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EUSERS):
		return forbidden(found)
	case errors.Is(err, unix.EOPNOTSUPP):
		return fmt.Errorf("lab: %s: %w: load the drivers: sudo modprobe -a veth bridge", what, err)
	}
	return fmt.Errorf("lab: %s: %w", what, err)
}

// forbidden returns the error for missing rights, with what was found and
// with what would help on this machine.
func forbidden(found string) error {
	return fmt.Errorf("%w: %s\n%s", ErrForbidden, found, advice(os.DirFS("/proc/sys")))
}

// advice names the commands that would allow a lab on the machine whose
// /proc/sys is given.
func advice(sys fs.FS) string {
	var lines []string
	for _, o := range obstacles {
		value, err := fs.ReadFile(sys, o.path)
		if err == nil && strings.TrimSpace(string(value)) == o.forbids {
			name := strings.ReplaceAll(o.path, "/", ".")
			lines = append(lines, fmt.Sprintf("%s: sudo sysctl -w %s=%s", o.why, name, o.allows))
		}
	}
	if lines == nil {
		lines = []string{"run it as root; in a container, start that with --privileged, or with" +
			" --cap-add=SYS_ADMIN --cap-add=NET_ADMIN --cap-add=NET_RAW and a seccomp profile that allows unshare and setns"}
	}
	return strings.Join(lines, "\n")
}
