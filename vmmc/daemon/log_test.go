package daemon_test

import (
	"fmt"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/logtest"
	"github.com/bobnet-go/bobnet/vmmc/daemon"
	"github.com/bobnet-go/bobnet/vmmc/internal/directory"
	"github.com/bobnet-go/bobnet/vmmc/internal/provider"
)

// within fails the test if fn has not returned in a minute, as when something waits for a
// handler, or a handler for a lock.
func within(t *testing.T, what string, fn func() error) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- fn() }()
	select {
	case err := <-done:
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	case <-time.After(time.Minute):
		t.Fatalf("%s: not within a minute", what)
	}
}

// enter has a process enter at a daemon, as package vmmc does. To close the connection is to
// end without a word.
func enter(d *daemon.Daemon, number uint32) (*net.UnixConn, error) {
	conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: d.Socket(), Net: "unixpacket"})
	if err != nil {
		return nil, err
	}
	self := provider.Identity{Addr: ethertype.Addr{MAC: d.NIC().Addr().MAC, Port: uint16(number)}, Process: number, Incarnation: 1}
	enter := directory.Message{Kind: directory.Enter, Self: self, Text: "s"}
	b, n := make([]byte, directory.MaxMessage), 0
	for _, say := range [][]byte{directory.AppendGreeting(nil, directory.Version), enter.Append(nil)} {
		if _, err = conn.Write(say); err != nil {
			break
		}
		if n, err = conn.Read(b); err != nil {
			break
		}
	}
	if m, ok := directory.Parse(b[:n]); err != nil || !ok || m.Kind != directory.Entered {
		conn.Close()
		return nil, fmt.Errorf("process %d is not let in: %x, %v", number, b[:n], err)
	}
	return conn, nil
}

// TestLogHandlerCalls: a handler of log lines may call what it likes. The line about the end
// of a process looks at the daemon.
func TestLogHandlerCalls(t *testing.T) {
	opened, lines := make(chan *daemon.Daemon, 1), make(chan string, 8)
	d := startLogging(t, slog.New(logtest.Handler(func(line string) {
		d := <-opened
		d.Snapshot()
		opened <- d
		lines <- line
	})))
	opened <- d
	within(t, "the end of a process", func() error {
		conn, err := enter(d, 1)
		if err != nil {
			return err
		}
		conn.Close()
		if line := <-lines; line != "vmmc daemon: a process has ended" {
			return fmt.Errorf("the line is %q", line)
		}
		return nil
	})
}

// TestLogHandlerBlocks: a handler that never returns, as one whose stderr nobody reads, keeps
// nobody from a daemon, and does not hold up its Close.
func TestLogHandlerBlocks(t *testing.T) {
	block, blocked := make(chan struct{}), make(chan string, 8)
	d := startLogging(t, slog.New(logtest.Handler(func(line string) {
		blocked <- line
		<-block
	})))
	defer close(block)
	within(t, "a process after the handler has blocked", func() error {
		conn, err := enter(d, 1)
		if err != nil {
			return err
		}
		conn.Close()
		<-blocked
		if conn, err = enter(d, 2); err != nil {
			return err
		}
		if s := d.Snapshot(); len(s.Processes) != 1 || s.Stats.Deaths != 1 {
			err = fmt.Errorf("%+v", s)
		}
		conn.Close()
		return err
	})
	within(t, "Close", d.Close)
}
