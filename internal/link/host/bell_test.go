package host_test

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/link/host"
	"github.com/bobnet-go/bobnet/internal/link/linktest"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/ring"
	"github.com/bobnet-go/bobnet/transport/trace"
	"golang.org/x/sys/unix"
)

// openTraced opens a joined link whose outer link does not watch the bell.
func openTraced(t *testing.T, p *vethtest.Pair) (l *host.Link) {
	t.Helper()
	err := p.In(0, func() error {
		outer, err := ring.Open(t.Context(), &ring.Config{Interface: vethtest.Name})
		if err == nil {
			l, err = host.Join(trace.New(outer, io.Discard), nil)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// ringEmpty sends nothing, in a datagram, to every bell of the namespace.
func ringEmpty() error {
	text, err := os.ReadFile("/proc/thread-self/net/unix")
	if err != nil {
		return err
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	rung := 0
	for line := range strings.Lines(string(text)) {
		_, name, _ := strings.Cut(strings.TrimSpace(line), "@")
		if !strings.Contains(name, "/bell/") {
			continue
		}
		if err := unix.Sendto(fd, nil, unix.MSG_DONTWAIT, &unix.SockaddrUnix{Name: "@" + name}); err != nil {
			return err
		}
		rung++
	}
	if rung == 0 {
		return fmt.Errorf("there is no bell in:\n%s", text)
	}
	return nil
}

// TestEmptyRing: anybody can send to a bell, also what looks like the end of a
// file. Neighbours wake the link still.
func TestEmptyRing(t *testing.T) {
	p := vethtest.New(t, 1500)
	a := openTraced(t, p)
	if err := p.In(0, ringEmpty); err != nil {
		t.Fatal(err)
	}
	b := openTraced(t, p)
	f := linktest.NewFrame(b.Info(), a.Info(), a.Info().Ports.Lo, []byte("wake up"))
	b.Send([]transport.Frame{{Head: f}})
	receive(t, a, 1) // from now on there are rings
	for range 3 {
		before := a.Stats().Waits
		waited := make(chan error, 1)
		go func() { waited <- a.Wait(transport.Forever) }()
		for a.Stats().Waits == before && len(waited) == 0 { // a Wait may return for no reason, uncounted
			runtime.Gosched()
		}
		b.Send([]transport.Frame{{Head: f}})
		select {
		case err := <-waited:
			if err != nil {
				t.Fatal(err)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("Wait has not returned")
		}
		receive(t, a, 1)
	}
}
