package vrpc_test

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/vmmc/vrpc"
	"golang.org/x/sys/unix"
)

// dialAs connects with a server of this host as another user.
func dialAs(t *testing.T, uid int, addr net.Addr) net.Conn {
	t.Helper()
	if os.Geteuid() != 0 {
		need.Skip(t, "root, to connect as another user")
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Setfsuid(uid); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err := errors.Join(err, unix.Setfsuid(0)); err != nil {
		t.Fatal(err)
	}
	to := unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}, Port: addr.(*net.TCPAddr).Port}
	if err := unix.Connect(fd, &to); err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "")
	defer f.Close()
	conn, err := net.FileConn(f)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(time.Minute))
	return conn
}

// until waits until a server's counters are as ok says.
func until(t *testing.T, s *vrpc.Server, what string, ok func(vrpc.Snapshot) bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(s.Snapshot()); runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("%s: %+v", what, s.Snapshot())
		}
	}
}

// TestMaxPeerConns: one user does not have all connections.
func TestMaxPeerConns(t *testing.T) {
	s := newServer(t, vrpc.ServerConfig{MaxConns: 20, MaxPeerConns: 5})
	addr, err := s.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	for range 40 {
		dialAs(t, 4321, addr)
	}
	until(t, s, "connections of one user", func(n vrpc.Snapshot) bool { return n.ConnsRefused == 35 && n.ConnsOpen == 5 })
	if err := dial(t, "tcp", addr.String(), nil).Ping(t.Context()); err != nil {
		t.Errorf("another user's call: %v", err)
	}
}

// TestMaxMemory: calls that one user sends by halves take a bounded part of the memory, and others
// are answered.
func TestMaxMemory(t *testing.T) {
	const size = 1 << 20
	s := newServer(t, vrpc.ServerConfig{MaxMessage: size, MaxMemory: 16 * size})
	addr, err := s.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	const many = 20
	half := append(binary.BigEndian.AppendUint32(nil, size), make([]byte, size-1)...)
	for range many {
		conn := dialAs(t, 4321, addr)
		go conn.Write(half)
	}
	until(t, s, "half calls of one user", func(n vrpc.Snapshot) bool { return n.ConnsBroken >= many-8 })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var res blob
	if err := dial(t, "tcp", addr.String(), nil).Call(ctx, procEcho, &blob{make([]byte, size/2)}, &res); err != nil || len(res.data) != size/2 {
		t.Errorf("another user's call: %v", err)
	}
	if n := s.Snapshot(); n.ConnsBroken > many {
		t.Errorf("another user's connection was ended: %+v", n)
	}
}
