package metrics_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/bobnet-go/bobnet/metrics"
)

// roleEnv makes the test binary the process that gets the signals.
const roleEnv = "BOBNET_TEST_QUIT"

func TestMain(m *testing.M) {
	if os.Getenv(roleEnv) != "" {
		c := metrics.NewCollector(nil)
		c.WatchNIC(nicWith(1))
		defer c.DumpOnQuit(os.Stderr)()
		fmt.Println("ready")
		io.Copy(io.Discard, os.Stdin)
		fmt.Println("went on")
		return
	}
	os.Exit(m.Run())
}

// quitter is a process that dumps when it gets SIGQUIT.
type quitter struct {
	*exec.Cmd
	in  io.Closer
	out *bufio.Scanner // standard output
	err *bufio.Scanner
}

func startQuitter(t *testing.T) *quitter {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	q := &quitter{Cmd: exec.CommandContext(t.Context(), self)}
	q.Env = append(os.Environ(), roleEnv+"=1", "GOTRACEBACK=single")
	in, inErr := q.StdinPipe()
	out, outErr := q.StdoutPipe()
	diag, diagErr := q.StderrPipe()
	if err := errors.Join(inErr, outErr, diagErr, q.Start()); err != nil {
		t.Fatal(err)
	}
	q.in, q.out, q.err = in, bufio.NewScanner(out), bufio.NewScanner(diag)
	until(t, q.out, "ready")
	return q
}

// until reads lines up to one with the given word in it, and returns them.
func until(t *testing.T, s *bufio.Scanner, word string) (text string) {
	t.Helper()
	for s.Scan() {
		text += s.Text() + "\n"
		if strings.Contains(s.Text(), word) {
			return text
		}
	}
	t.Fatalf("no line with %q among\n%s", word, text)
	return ""
}

// TestQuitGoesOn: SIGQUIT prints the dump and changes nothing else.
func TestQuitGoesOn(t *testing.T) {
	q := startQuitter(t)
	q.Process.Signal(syscall.SIGQUIT)
	if text := until(t, q.err, "SIGQUIT again"); !strings.Contains(text, "NIC bob0  ") || !strings.Contains(text, "UNACKNOWLEDGED") {
		t.Errorf("SIGQUIT printed\n%s", text)
	}
	q.in.Close()
	until(t, q.out, "went on")
	if err := q.Wait(); err != nil {
		t.Error(err)
	}
}

// TestQuitTwice: a second SIGQUIT soon after does what Go does. Should this
// machine take too long to send it, it is the first of two again.
func TestQuitTwice(t *testing.T) {
	q := startQuitter(t)
	q.Process.Signal(syscall.SIGQUIT)
	stacks := false
	for q.err.Scan() {
		if strings.Contains(q.err.Text(), "SIGQUIT again") {
			q.Process.Signal(syscall.SIGQUIT)
		}
		stacks = stacks || strings.HasPrefix(q.err.Text(), "goroutine ")
	}
	q.Wait()
	if code := q.ProcessState.ExitCode(); code != 2 || !stacks {
		t.Errorf("it ended with exit code %d, stacks printed: %v; want 2 and stacks", code, stacks)
	}
}
