package shm_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/bobnet-go/bobnet/internal/link/linktest"
	"github.com/bobnet-go/bobnet/internal/link/shm"
	"github.com/bobnet-go/bobnet/transport"
)

// roleEnv names what a process started from this test binary does.
const roleEnv = "BOBNET_TEST_SHM_ROLE"

// roles open a link, print its lowest port, and go on until they are killed or
// their input ends.
var roles = map[string]func(l *shm.Link){
	"Echo": func(l *shm.Link) { serve(l, true, false) },
	"Sink": func(l *shm.Link) { serve(l, false, false) },
	"Idle": func(*shm.Link) { io.Copy(io.Discard, os.Stdin) },
	"Wait": func(l *shm.Link) { serve(l, true, true) },
	"Line": func(*shm.Link) { lineRole() },
	"Copy": func(*shm.Link) { copyRole() },
	"Ask":  ask,

	"Memory": memoryRole,
}

func TestMain(m *testing.M) {
	name := os.Getenv(roleEnv)
	if name == "" {
		os.Exit(m.Run())
	}
	cfg, err := childConfig()
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	l, err := shm.Open(cfg)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(l.Info().Ports.Lo)
	go func() {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	roles[name](l)
}

// child is another process with a link.
type child struct {
	*exec.Cmd
	stdin io.Closer
	out   *bufio.Reader
	info  transport.Info // of its link, as far as it matters
}

// start starts a process in a role and returns when its link is open. It ends
// with the test.
func start(t testing.TB, role string, files ...*os.File) *child {
	t.Helper()
	return startWith(t, role, nil, files...)
}

// startWith is start with more variables in the environment.
func startWith(t testing.TB, role string, env []string, files ...*os.File) *child {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := &child{Cmd: exec.Command(exe)}
	c.Env = append(append(os.Environ(), roleEnv+"="+role), env...)
	c.Stderr, c.ExtraFiles = os.Stderr, files
	c.stdin, err = c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.stdin.Close()
		c.Wait()
	})
	c.out = bufio.NewReader(out)
	line, err := c.out.ReadString('\n')
	if err != nil {
		t.Fatalf("child: %v", err)
	}
	c.info = transport.Info{MAC: shm.HostMAC, EtherType: etherType}
	if _, err := fmt.Sscan(strings.TrimSpace(line), &c.info.Ports.Lo); err != nil {
		t.Fatalf("child: %s", line)
	}
	return c
}

// frame returns a frame from l to the child.
func (c *child) frame(l *shm.Link, n int) transport.Frame {
	return transport.Frame{Head: linktest.NewFrame(l.Info(), c.info, c.info.Ports.Lo, make([]byte, n))}
}

// serve receives for ever, and sends each frame back if it is to.
func serve(l *shm.Link, echo, sleep bool) {
	views, frames := make([][]byte, transport.MaxBatch), make([]transport.Frame, transport.MaxBatch)
	copies := make([]byte, transport.MaxBatch<<16)
	for spins := 0; ; spins++ {
		if sleep {
			l.Wait(transport.Forever)
		} else if spins&(1<<16-1) == 0 {
			runtime.Gosched()
		}
		if !l.Ready() {
			continue
		}
		n, err := l.Recv(views)
		if err != nil {
			return
		}
		for i, v := range views[:n] {
			b := copies[i<<16:][:1<<16]
			b = b[:copy(b, v)]
			if echo {
				copy(b[18:20], v[20:22]) // to whom it came from,
				copy(b[20:22], v[18:20]) // from whom it went to
				frames[i].Head = b
			}
		}
		if echo && n > 0 {
			l.Send(frames[:n])
		}
	}
}
