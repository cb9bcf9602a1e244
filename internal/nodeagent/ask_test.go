package nodeagent

import (
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/link/agent"
	"golang.org/x/sys/unix"
)

// TestAskLate: an answer that comes late is taken for none to another question, and until it
// comes nothing is asked.
func TestAskLate(t *testing.T) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var ends [2]*net.UnixConn
	for i, fd := range fds {
		file := os.NewFile(uintptr(fd), "end")
		c, err := net.FileConn(file)
		file.Close()
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(patience))
		ends[i] = c.(*net.UnixConn)
	}
	p := newProgram(ends[0], &unix.Ucred{})
	if !p.question(agent.Metrics) || p.question(agent.Dump) {
		t.Fatal("a second question is sent before the first is answered, or the first is not")
	}
	if _, err := p.Ask(agent.Dump); !errors.Is(err, ErrSilent) {
		t.Errorf("a program that has not answered: %v", err)
	}
	if !p.take([]byte("metrics")) || p.take([]byte("more")) {
		t.Error("an answer that is due is not taken, or one that is not")
	}
	got := make(chan string, 1)
	go func() {
		body, err := p.Ask(agent.Dump)
		got <- string(body) + "/" + errorText(err)
	}()
	for _, want := range []string{agent.Metrics, agent.Dump} {
		var q agent.Question
		if _, err := agent.Read(ends[1], &q, agent.MaxRequest); err != nil || q.What != want {
			t.Fatalf("asked for %q, %v, want %q", q.What, err, want)
		}
	}
	p.take([]byte("dump"))
	if body := <-got; body != "dump/" {
		t.Errorf("the answer is %q", body)
	}
}

func errorText(err error) string {
	if err != nil {
		return err.Error()
	}
	return ""
}
