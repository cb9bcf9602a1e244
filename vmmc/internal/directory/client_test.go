package directory

import (
	"fmt"
	"log/slog"
	"net"
	"os"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/vmmc/internal/provider"
)

// daemons are daemons that run one after the other at a socket, of which each hears what the
// test wants.
type daemons struct {
	testing.TB
	l *net.UnixListener
}

func newDaemons(t *testing.T) (*daemons, string) {
	name := fmt.Sprintf("@bobnet/test/%d/%s", os.Getpid(), t.Name())
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: name, Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return &daemons{t, l}, name
}

// next is the daemon that the process finds next.
func (d *daemons) next() *net.UnixConn {
	d.Helper()
	_ = d.l.SetDeadline(time.Now().Add(time.Minute))
	conn, err := d.l.AcceptUnix()
	if err != nil {
		d.Fatal(err)
	}
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	b := make([]byte, MaxMessage)
	if _, err = conn.Read(b); err == nil {
		_, err = conn.Write(AppendGreeting(nil, Version))
	}
	if err != nil {
		d.Fatal(err)
	}
	return conn
}

// hear returns what the process says.
func (d *daemons) hear(conn *net.UnixConn) Message {
	d.Helper()
	b := make([]byte, MaxMessage)
	n, err := conn.Read(b)
	m, ok := Parse(b[:n])
	if err != nil || !ok {
		d.Fatalf("the process says %x, %v", b[:n], err)
	}
	return m
}

// TestEnterOfManyDaemons: a process that no daemon has answered yet asks the next one, and one
// that daemons leave without an answer keeps one question, not one for each of them.
func TestEnterOfManyDaemons(t *testing.T) {
	d, name := newDaemons(t)
	dialed := make(chan *Client, 1)
	go func() {
		c, err := Dial(t.Context(), name, "s", slog.New(slog.DiscardHandler))
		if err != nil {
			t.Error(err)
		}
		dialed <- c
	}()
	conn := d.next()
	c := <-dialed
	if c == nil {
		t.FailNow()
	}
	defer c.Close()
	self := provider.Identity{Addr: ethertype.Addr{MAC: ethertype.MAC{2, 1}, Port: 5}, Process: 3}
	entered := make(chan error, 1)
	go func() { entered <- c.Enter(self) }()
	if m := d.hear(conn); m.Kind != Enter {
		t.Fatalf("the process says %+v", m)
	}
	conn.Close() // without an answer
	conn = d.next()
	m := d.hear(conn)
	if m.Kind != Enter || m.Self != self {
		t.Fatalf("the process says %+v to the next daemon", m)
	}
	if _, err := conn.Write((&Message{Kind: Entered, Seq: m.Seq}).Append(nil)); err != nil {
		t.Fatal(err)
	}
	if err := <-entered; err != nil {
		t.Fatal(err)
	}
	for range 3 {
		conn.Close()
		conn = d.next()
		if m := d.hear(conn); m.Kind != Enter || m.Self != self {
			t.Fatalf("the process says %+v to a later daemon", m)
		}
		c.mu.Lock()
		if len(c.asked) != 1 {
			t.Errorf("%d questions are open", len(c.asked))
		}
		c.mu.Unlock()
	}
	conn.Close()
}
