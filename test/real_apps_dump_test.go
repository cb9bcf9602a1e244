package test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestAppsDump: SIGQUIT to bobnet perf --apps has the processes of the application say what they
// wait for, and they go on.
func TestAppsDump(t *testing.T) {
	needLab(t)
	cmd := exec.CommandContext(t.Context(), filepath.Join(commands(t), "bobnet"), "perf", "--apps=raytrace", "--layer", "reliable", "--ranks", "2", "--rounds", "1", "--json")
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for !hasComputed(t, cmd.Process.Pid) {
		select {
		case err := <-ended:
			t.Fatalf("it has ended: %v\n%s", err, &said)
		case <-time.After(10 * time.Millisecond):
		}
	}
	if err := cmd.Process.Signal(unix.SIGQUIT); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil || strings.Count(out.String(), "\n") != 2 {
		t.Errorf("%v, and it printed\n%s\n%s", err, &out, &said)
	}
	if !strings.Contains(said.String(), "split-c: process 0 of ") {
		t.Errorf("no process has said what it does:\n%s", &said)
	}
}

// hasComputed reports whether a process of the application that process pid runs has used a fifth of
// a second of a processor: by then it has been ready for SIGQUIT for long.
func hasComputed(t *testing.T, pid int) bool {
	t.Helper()
	const utime, ticks = 11, 20 // field of what follows the name; hundredths of a second
	for _, name := range children(t, pid) {
		line, err := os.ReadFile("/proc/" + name + "/cmdline")
		if err != nil || !strings.Contains(string(line), "\x00perf\x00app\x00") {
			continue
		}
		stat, err := os.ReadFile("/proc/" + name + "/stat")
		if err != nil { // it has ended
			continue
		}
		_, rest, _ := strings.Cut(string(stat), ") ")
		if n, err := strconv.Atoi(strings.Fields(rest)[utime]); err == nil && n >= ticks {
			return true
		}
	}
	return false
}

// children returns the processes that a process has started and that are there.
func children(t *testing.T, pid int) []string {
	t.Helper()
	files, err := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, f := range files {
		b, _ := os.ReadFile(f) // the thread may have ended
		all = append(all, strings.Fields(string(b))...)
	}
	return all
}
