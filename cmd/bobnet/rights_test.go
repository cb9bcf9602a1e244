package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/bobnet-go/bobnet/internal/need"
	"golang.org/x/sys/unix"
)

// copyForAll returns the file of a copy of this program that any user may run.
// It skips the test unless this is root, and not of a user namespace only.
func copyForAll(t *testing.T) string {
	t.Helper()
	users, err := os.ReadFile("/proc/self/uid_map")
	if fields := strings.Fields(string(users)); err != nil || os.Geteuid() != 0 || len(fields) != 3 || fields[2] != "4294967295" {
		need.Skip(t, "root, outside of user namespaces")
	}
	return copyProgram(t, publicDir(t))
}

// asNobody runs a program as an ordinary user with no rights of his own, and
// returns its output and exit code.
func asNobody(t *testing.T, argv ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errOut bytes.Buffer
	cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = "/", &out, &errOut
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return out.String(), errOut.String(), cmd.ProcessState.ExitCode()
}

// TestSetcap: a program that setcap has given the right to raw sockets makes labs
// all the same, for an ordinary user, and again inside of one.
func TestSetcap(t *testing.T) {
	needLab(t)
	bobnet := copyForAll(t)
	setcap, err := exec.LookPath("setcap")
	if err != nil {
		need.Skip(t, "setcap of libcap2-bin: %v", err)
	}
	if out, err := exec.CommandContext(t.Context(), setcap, "cap_net_raw=ep", bobnet).CombinedOutput(); err != nil {
		t.Fatalf("setcap: %v: %s", err, out)
	}
	if out, _, _ := asNobody(t, bobnet, "info"); !strings.Contains(out, "raw sockets    allowed") {
		t.Fatalf("setcap has no effect here, so that this shows nothing:\n%s", out)
	}
	pictures := publicDir(t)
	if err := os.Chown(pictures, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	const nic = "NIC            02:62:6f:62:00:01/1024"
	for _, tc := range []struct {
		argv []string
		want string
	}{
		{[]string{"lab", "-n", "2", "--", bobnet, "info"}, nic},
		{[]string{"lab", "-n", "1", "--", bobnet, "lab", "-n", "2", "--", bobnet, "info"}, nic},
		{[]string{"perf", "--local", "--stacks", "raw", "--tests", "latency", "--wait", "block", "--count", "10", "--rounds", "1"}, " raw "},
		{[]string{"demo", "--ranks", "2", "--steps", "5", "--time", "5s", "--out", pictures}, pictures + "/" + demoPerf},
	} {
		t.Run(tc.argv[0]+fmt.Sprint(len(tc.argv)), func(t *testing.T) {
			if tc.argv[0] == "demo" && testing.Short() {
				t.Skip("left out by -short: it takes half a minute")
			}
			out, errOut, code := asNobody(t, append([]string{bobnet}, tc.argv...)...)
			if code != 0 || !strings.Contains(out, tc.want) {
				t.Errorf("exit code %d, printed\n%s%s", code, out, errOut)
			}
		})
	}
	if out, _, _ := asNobody(t, bobnet, "info"); !strings.Contains(out, "labs           allowed") {
		t.Errorf("info prints\n%s", out)
	}
}

// TestReadOnlyProc: where the users of a namespace cannot be written because /proc
// is mounted read-only, an ordinary user is told so, and the remedy; root needs
// neither.
func TestReadOnlyProc(t *testing.T) {
	needLab(t)
	bobnet := copyForAll(t)
	if _, err := exec.LookPath("setpriv"); err != nil {
		need.Skip(t, "setpriv of util-linux: %v", err)
	}
	readOnly := func(uid int) (string, error) {
		script := fmt.Sprintf("mount --bind /proc /proc && mount -o remount,ro,bind /proc && exec setpriv --reuid=%d --clear-groups %s lab -- true", uid, bobnet)
		cmd := exec.CommandContext(t.Context(), "sh", "-c", script)
		cmd.Dir = "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS}
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	out, err := readOnly(nobody)
	if err == nil || !strings.Contains(out, "/proc is mounted read-only") || !strings.Contains(out, "sudo mount -o remount,rw /proc") {
		t.Errorf("nobody: %v: %s", err, out)
	}
	if out, err := readOnly(0); err != nil {
		t.Errorf("root: %v: %s", err, out)
	}
}
