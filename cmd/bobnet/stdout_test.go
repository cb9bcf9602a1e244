package main

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bobnet-go/bobnet/internal/need"
	"golang.org/x/sys/unix"
)

// bobnet top asks the standard output for the size of its terminal only if it has these methods.
var _ interface {
	io.ReadWriteCloser
	Fd() uintptr
} = stdout

// TestFullOutput: what cannot be written to the standard output makes the command fail, also
// where a library or a rank writes it.
func TestFullOutput(t *testing.T) {
	bobnet := copyProgram(t, t.TempDir())
	for _, args := range []string{"info", "--help", "map -h", "version", "run -n 2 -- echo hi", "key", "completion bash", "map --fabric two", "rpcgen -o - " + rpcFile(t)} {
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(bobnet, strings.Fields(args)...)
		cmd.Stdout = full
		fails(t, cmd)
		full.Close()
	}
}

// fails runs a command that must end with exit code 1 and say that there is no space.
func fails(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	var said strings.Builder
	cmd.Stderr = &said
	if err := cmd.Run(); cmd.ProcessState.ExitCode() != 1 || !strings.Contains(said.String(), "no space left on device") {
		t.Errorf("%s: %v, and said %q", cmd.Args[1:], err, &said)
	}
}

// rpcFile returns the name of a file in RPC language.
func rpcFile(t *testing.T) string {
	name := filepath.Join(t.TempDir(), "file.x")
	if err := os.WriteFile(name, []byte("const SIZE = 7;\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// fullFile returns the name of a file in a new folder on which there is no space.
func fullFile(t *testing.T, name string) string {
	path := filepath.Join(t.TempDir(), name)
	if err := os.Symlink("/dev/full", path); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestFullFiles: a file that cannot be written makes the command fail, whichever that is.
func TestFullFiles(t *testing.T) {
	bobnet := copyProgram(t, t.TempDir())
	for _, args := range [][]string{
		{"man", filepath.Dir(fullFile(t, "bobnet.1"))},
		{"map", "--fabric", "two", "-o", fullFile(t, "map")},
		{"rpcgen", "-p", "p", "-o", fullFile(t, "x.go"), rpcFile(t)},
	} {
		fails(t, exec.Command(bobnet, args...))
	}
}

// TestFullFilesInLab is TestFullFiles for commands that use the network.
func TestFullFilesInLab(t *testing.T) {
	needLab(t)
	bobnet := copyProgram(t, t.TempDir())
	perf := []string{"perf", "--local", "--stacks", "vipl", "--tests", "latency", "--wait", "spin", "--reliability", "delivery", "--count", "10", "--rounds", "1"}
	for _, args := range [][]string{
		append(perf[:len(perf):len(perf)], "--pcap", fullFile(t, "x.pcap")),
		append(perf[:len(perf):len(perf)], "--pcap", strings.TrimSuffix(fullFile(t, "x-server.pcap"), "-server.pcap")+".pcap"),
		append(perf[:len(perf):len(perf)], "--plot", fullFile(t, "x.png")),
		append(perf[:len(perf):len(perf)], "--cpuprofile", fullFile(t, "x.prof")),
		append(perf[:len(perf):len(perf)], "--memprofile", fullFile(t, "x.prof")),
		{"demo", "--steps", "10", "--out", filepath.Dir(fullFile(t, demoHeat))},
	} {
		fails(t, exec.Command(bobnet, args...))
	}
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	cmd := exec.Command(bobnet, append(perf, "--json")...)
	cmd.Stdout = full
	fails(t, cmd)
}

// TestFullInterrupted: an interrupt does not hide that a file could not be written.
func TestFullInterrupted(t *testing.T) {
	dir := t.TempDir()
	bobnet := copyProgram(t, dir)
	here := []string{"--driver", "udp", "--iface", "127.0.0.1", "--pcap", fullFile(t, "x.pcap")}
	interruptedFull(t, exec.Command(bobnet, append([]string{"ping", "--listen"}, here...)...))
	t.Run("tun", func(t *testing.T) {
		needLab(t)
		device, err := os.OpenFile("/dev/net/tun", os.O_RDWR, 0)
		if err != nil {
			need.Skip(t, "TUN devices: %v", err)
		}
		device.Close()
		tun := `exec "$0" tun --addr 10.9.0.1/24 --pcap "$1"`
		interruptedFull(t, exec.Command(bobnet, "lab", "-n", "1", "--", "sh", "-c", tun, bobnet, fullFile(t, "x.pcap")))
	})
}

// interruptedFull interrupts a command when it has printed a line. The command must fail then.
func interruptedFull(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Errorf("%s: no line: %v", cmd.Args[1:], err)
	}
	cmd.Process.Signal(unix.SIGINT)
	cmd.Wait()
	lab := cmd.Args[1] == "lab" // its exit code is its own
	if code := cmd.ProcessState.ExitCode(); code != 1 && !lab || !strings.Contains(said.String(), "no space left on device") {
		t.Errorf("%s: exit code %d, and said %q", cmd.Args[1:], code, &said)
	}
}

// TestPipes: a pipe that no process reads is a usage error at once.
func TestPipes(t *testing.T) {
	bobnet := copyProgram(t, t.TempDir())
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"ping", "--listen", "--pcap", pipe}, {"perf", "--local", "--plot", pipe}, {"perf", "--local", "--pcap", pipe}, {"tun", "--addr", "10.9.0.1/24", "--pcap", pipe},
		{"map", "--fabric", "two", "-o", pipe}, {"rpcgen", "-o", pipe, rpcFile(t)},
	} {
		cmd := exec.Command(bobnet, args...)
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != 2 || !strings.Contains(string(out), "no process reads from this pipe: start its reader first") {
			t.Errorf("%s: %v, and said %q", args, err, out)
		}
	}
}
