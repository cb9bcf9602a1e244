package vipl_test

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"testing"
)

// roleEnv names what a process started from this test binary does.
const roleEnv = "BOBNET_TEST_VIPL_ROLE"

// roles run until they have ended, are killed or their input ends. What they
// print is for the test.
var roles = map[string]func() error{
	"hold":   holdRole,
	"lock":   lockRole,
	"nobody": nobodyRole,
	"squat":  squatRole,
	"visit":  visitRole,
}

func TestMain(m *testing.M) {
	name := os.Getenv(roleEnv)
	if name == "" {
		slog.SetDefault(slog.New(slog.DiscardHandler)) // of the NICs that get no Logger
		os.Exit(m.Run())
	}
	go func() {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(2) // the test is gone
	}()
	if err := roles[name](); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	os.Exit(0)
}

// child is another process.
type child struct {
	*exec.Cmd
	out *bufio.Reader
}

// play returns a process in a role, to be started by start. It ends with the test.
func play(t *testing.T, role string, start func(*exec.Cmd) error, env ...string) *child {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := &child{Cmd: exec.Command(self)}
	c.Env = append(append(os.Environ(), roleEnv+"="+role), env...)
	c.Stderr = os.Stderr
	stdin, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := start(c.Cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stdin.Close()
		c.Wait()
	})
	c.out = bufio.NewReader(out)
	return c
}
