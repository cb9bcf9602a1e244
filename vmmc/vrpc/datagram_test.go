package vrpc_test

import (
	"bytes"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/vmmc/vrpc"
	"github.com/bobnet-go/bobnet/vmmc/xdr"
)

// counter is a program whose procedure 1 returns how often it has run.
func counter(t *testing.T, s *vrpc.Server) *atomic.Int32 {
	t.Helper()
	n := new(atomic.Int32)
	err := s.Register(&vrpc.Program{Number: testProg + 2, Version: 1, Procedures: []vrpc.Procedure{
		vrpc.Proc(1, "NEXT", func(_ *vrpc.Call, _ *xdr.Void, res *number) error {
			res.n = n.Add(1)
			return nil
		}),
	}})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// A call that is repeated runs its procedure once, and has the same reply each time.
func TestDuplicateCalls(t *testing.T) {
	s := newServer(t, vrpc.ServerConfig{})
	ran := counter(t, s)
	addr, err := s.Listen("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("udp", addr.String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(time.Minute))
	msg := words(7, 0, 2, testProg+2, 1, 1, 0, 0, 0, 0)
	buf := make([]byte, 100)
	for i := range 5 {
		conn.Write(msg)
		n, err := conn.Read(buf)
		if want := words(7, 1, 0, 0, 0, 0, 1); err != nil || !bytes.Equal(buf[:n], want) {
			t.Fatalf("%d: %x, %v, want %x", i, buf[:n], err, want)
		}
	}
	if n := s.Snapshot(); ran.Load() != 1 || n.Duplicates != 4 || n.Datagrams != 5 {
		t.Errorf("ran %d times; %+v", ran.Load(), n)
	}
}

// lossy is a network in front of a server that loses the first copies of each datagram,
// in both directions.
func lossy(t *testing.T, server string, lose int) string {
	front, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	back, err := net.Dial("udp", server)
	if err != nil {
		t.Fatal(err)
	}
	var client atomic.Value
	pass := func(seen map[string]int, p []byte) bool {
		seen[string(p)]++
		return seen[string(p)] > lose
	}
	var group sync.WaitGroup
	group.Go(func() {
		buf, seen := make([]byte, 65536), map[string]int{}
		for {
			n, from, err := front.ReadFrom(buf)
			if err != nil {
				return
			}
			client.Store(from)
			if pass(seen, buf[:n]) {
				back.Write(buf[:n])
			}
		}
	})
	group.Go(func() {
		buf, seen := make([]byte, 65536), map[string]int{}
		for {
			n, err := back.Read(buf)
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err == nil && pass(seen, buf[:n]) {
				front.WriteTo(buf[:n], client.Load().(net.Addr))
			}
		}
	})
	t.Cleanup(func() {
		front.Close()
		back.Close()
		group.Wait()
	})
	return front.LocalAddr().String()
}

// Calls and replies that are lost are repeated, and each procedure runs once.
func TestRetransmission(t *testing.T) {
	s := newServer(t, vrpc.ServerConfig{})
	ran := counter(t, s)
	addr, err := s.Listen("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := dial(t, "udp", lossy(t, addr.String(), 2), &vrpc.ClientConfig{Retry: 5 * time.Millisecond, Timeout: -1})
	for i := range int32(20) {
		var n number
		if err := c.Program(testProg+2, 1).Call(t.Context(), 1, &xdr.Void{}, &n); err != nil || n.n != i+1 {
			t.Fatalf("call %d: %d, %v", i, n.n, err)
		}
	}
	if ran.Load() != 20 {
		t.Errorf("20 calls ran %d times", ran.Load())
	}
}

// A server that never answers: the call ends in its time.
func TestTimeout(t *testing.T) {
	silent, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	c := dial(t, "udp", silent.LocalAddr().String(), &vrpc.ClientConfig{Retry: time.Millisecond, Timeout: 50 * time.Millisecond})
	if err := c.Ping(t.Context()); !errors.Is(err, vrpc.ErrTimeout) {
		t.Errorf("udp: %v", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0") // the kernel connects, and nobody reads
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c = dial(t, "tcp", l.Addr().String(), &vrpc.ClientConfig{Timeout: 50 * time.Millisecond})
	if err := c.Ping(t.Context()); !errors.Is(err, vrpc.ErrTimeout) {
		t.Errorf("tcp: %v", err)
	}
	if err := c.Call(t.Context(), 1, &blob{make([]byte, 4<<20-100)}, &blob{}); !errors.Is(err, vrpc.ErrTimeout) {
		t.Errorf("tcp, in the middle of a call: %v", err)
	}
}

// A procedure that ends its goroutine costs its call, and no worker.
func TestGoexit(t *testing.T) {
	s := newServer(t, vrpc.ServerConfig{DatagramWorkers: 1})
	err := s.Register(&vrpc.Program{Number: testProg + 3, Version: 1, Procedures: []vrpc.Procedure{
		vrpc.Proc(1, "EXIT", func(*vrpc.Call, *xdr.Void, *xdr.Void) error {
			goexit()
			return nil
		}),
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, network := range []string{"udp", "tcp"} {
		c := listen(t, s, network, nil)
		if err := c.Program(testProg+3, 1).Batch(t.Context(), 1, &xdr.Void{}); err != nil {
			t.Fatal(err)
		}
		if network == "udp" {
			if err := c.Ping(t.Context()); err != nil {
				t.Errorf("udp, afterwards: %v", err)
			}
			continue
		}
		if err := c.Ping(t.Context()); !errors.Is(err, vrpc.ErrTransport) {
			t.Errorf("tcp: %v", err)
		}
		if err := c.Ping(t.Context()); err != nil {
			t.Errorf("tcp, afterwards: %v", err)
		}
	}
}
