package vrpc_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bobnet-go/bobnet/internal/leaktest"
	"github.com/bobnet-go/bobnet/vmmc/vrpc"
	"github.com/bobnet-go/bobnet/vmmc/xdr"
)

// goexit ends the goroutine that calls it.
func goexit() { runtime.Goexit() }

// pipes is a listener whose connections are in the process, so that they live in virtual time.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

func (l *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipes) Close() error {
	select {
	case <-l.done:
	default:
		close(l.done)
	}
	return nil
}

func (l *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

// Half a call and silence, silence from the start, and a reply that nobody reads end the
// connection, each in its time.
func TestSilence(t *testing.T) {
	call := words(1<<31|40, 7, 0, 2, testProg, testVers, 0, 0, 0, 0, 0)
	for _, c := range []struct {
		name string
		sent []byte
		want time.Duration
	}{
		{"nothing", nil, time.Hour},
		{"half a mark", call[:2], time.Minute},
		{"half a call", call[:20], time.Minute},
		{"a fragment and no other", words(4, 7), time.Minute},
		{"a call whose reply is not read", call, time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := vrpc.NewServer(&vrpc.ServerConfig{IdleTimeout: time.Hour, RecordTimeout: time.Minute, Logger: quiet()})
				if err := s.Register(testProgram()); err != nil {
					t.Fatal(err)
				}
				l := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
				if err := s.Serve(l); err != nil {
					t.Fatal(err)
				}
				conn, end := net.Pipe()
				l.conns <- end
				if _, err := conn.Write(c.sent); err != nil {
					t.Fatal(err)
				}
				begin := time.Now()
				for s.Snapshot().ConnsTimedOut == 0 {
					<-time.After(time.Second)
				}
				if took := time.Since(begin).Round(time.Minute); took != c.want {
					t.Errorf("ended after %v, want %v", took, c.want)
				}
				conn.Close()
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestMaxConns(t *testing.T) {
	s := newServer(t, vrpc.ServerConfig{MaxConns: 2})
	addr, err := s.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := dial(t, "tcp", addr.String(), nil).Ping(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	conn, err := net.Dial("tcp", addr.String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(time.Minute))
	if n, err := conn.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("a third connection: %d bytes, %v", n, err)
	}
	if n := s.Snapshot(); n.Conns != 2 || n.ConnsRefused != 1 || n.ConnsOpen != 2 {
		t.Errorf("%+v", n)
	}
}

// A message that is no call ends its connection, as do fragments of up to 2^31-1 bytes and too
// many of none.
func TestNoCall(t *testing.T) {
	s := newServer(t, vrpc.ServerConfig{})
	addr, err := s.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	for _, sent := range [][]byte{words(1 << 31), words(1<<31|8, 7, 1), []byte("GET / HTTP/1.0\r\n\r\n"),
		words(1<<31-1, 7, 0), words(1<<32-1, 7, 0), make([]byte, 4*100)} {
		conn, err := net.Dial("tcp", addr.String())
		if err != nil {
			t.Fatal(err)
		}
		conn.SetDeadline(time.Now().Add(time.Minute))
		conn.Write(sent)
		if reply, err := io.ReadAll(conn); len(reply) > 0 || err != nil && strings.Contains(err.Error(), "timeout") {
			t.Errorf("%q is answered with %x, %v", sent, reply, err)
		}
		conn.Close()
	}
}

// A server that answers nonsense: the client's call fails, and another connection is made.
func TestBadReplies(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, reply := range [][]byte{words(1<<31 | 4), words(1<<31|12, 7, 0, 0), words(1<<31-1, 7, 1), words(1 << 31)} {
		go func() {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
			io.ReadFull(conn, make([]byte, 44)) // the call: before it the connection is good
			conn.Write(reply)
			conn.(*net.TCPConn).CloseWrite()
			io.Copy(io.Discard, conn)
		}()
		c := dial(t, "tcp", l.Addr().String(), nil)
		if err := c.Ping(t.Context()); err == nil {
			t.Errorf("%x was taken for a reply", reply)
		}
		c.Close()
	}
}

// Whatever comes, a session answers or refuses it, and what it sends is a reply to it.
func FuzzAnswer(f *testing.F) {
	for _, proc := range []uint32{0, procAdd, procEcho, procFail, procWho, 77} {
		f.Add(words(7, 0, 2, testProg, testVers, proc, 0, 0, 0, 0, 1, 2))
	}
	f.Add(words(7, 0, 2, testProg, testVers, procWho, 1, 20, 1, 0, 5, 6, 0, 0, 0))
	f.Add(words(7, 0, 3))
	s := newServer(f, vrpc.ServerConfig{Shorthands: 4})
	ss := s.NewSession(f.Context(), vrpc.Peer{Netid: "tcp"}, 1<<16)
	f.Fuzz(func(t *testing.T, msg []byte) {
		reply, err := ss.Answer(msg, nil)
		if err != nil && len(reply) > 0 || len(reply)%4 != 0 || len(reply) > 1<<16 {
			t.Fatalf("%d bytes, %v", len(reply), err)
		}
		if len(reply) > 0 && (!bytes.Equal(reply[:4], msg[:4]) || !bytes.Equal(reply[4:8], words(1))) {
			t.Fatalf("reply %x to %x", reply, msg)
		}
	})
}

// fixed is a transport that answers each call with the same bytes.
type fixed struct{ reply []byte }

func (t fixed) RoundTrip(_ context.Context, x *vrpc.Exchange) error {
	x.Reply = append(append(x.Reply[:0], x.Message[:4]...), t.reply...)
	return nil
}
func (fixed) Release(*vrpc.Exchange)                     {}
func (fixed) Send(context.Context, *vrpc.Exchange) error { return nil }
func (fixed) Close() error                               { return nil }

// Whatever a server replies, a call ends with results or an error.
func FuzzReply(f *testing.F) {
	f.Add(words(1, 0, 0, 0, 0, 3))
	f.Add(words(1, 0, 0, 0, 2, 1, 5))
	f.Add(words(1, 1, 0, 2, 2))
	f.Add(words(1, 1, 1, 2))
	f.Add(words(1, 0, 2, 4, 1, 0, 3))
	auth, err := vrpc.NewSysAuth(vrpc.SysCred{UID: 1})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, reply []byte) {
		c := vrpc.NewClient(fixed{reply}, testProg, testVers, &vrpc.ClientConfig{Auth: auth})
		c.Call(t.Context(), procEcho, &xdr.Void{}, &blob{})
	})
}

// Nothing is left of servers and clients that were closed.
func TestNothingLeft(t *testing.T) {
	leaktest.Run(t, 2, func(int) error {
		s := vrpc.NewServer(&vrpc.ServerConfig{Logger: quiet(), Parallel: 2})
		if err := s.Register(testProgram()); err != nil {
			return err
		}
		for _, network := range []string{"tcp", "udp"} {
			addr, err := s.Listen(network, "127.0.0.1:0")
			if err != nil {
				return err
			}
			c, err := vrpc.Dial(t.Context(), network, addr.String(), testProg, testVers, nil)
			if err != nil {
				return err
			}
			if err := c.Call(t.Context(), procAdd, &pair{1, 2}, &number{}); err != nil {
				return err
			}
			if err := c.Close(); err != nil {
				return err
			}
		}
		return s.Close()
	})
}
