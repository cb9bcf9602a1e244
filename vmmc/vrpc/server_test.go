package vrpc_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/lingertest"
	"github.com/bobnet-go/bobnet/internal/logtest"
	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/internal/passfd"
	"github.com/bobnet-go/bobnet/vmmc/vrpc"
	"github.com/bobnet-go/bobnet/vmmc/xdr"
	"golang.org/x/sys/unix"
)

func TestDirectCall(t *testing.T) {
	c := newDirect(t, newServer(t, vrpc.ServerConfig{}), nil)
	var sum number
	if err := c.Call(t.Context(), procAdd, &pair{40, 2}, &sum); err != nil || sum.n != 42 {
		t.Errorf("%d, %v", sum.n, err)
	}
	if err := c.Ping(t.Context()); err != nil {
		t.Errorf("procedure 0, which nobody has registered: %v", err)
	}
	data := bytes.Repeat([]byte("x"), 100001)
	var back blob
	if err := c.Call(t.Context(), procEcho, &blob{data}, &back); err != nil || !bytes.Equal(back.data, data) {
		t.Errorf("%d bytes, %v", len(back.data), err)
	}
}

// A procedure's error is what the client's call returns.
func TestStatusOfProcedure(t *testing.T) {
	s := newServer(t, vrpc.ServerConfig{})
	c := newDirect(t, s, nil)
	want := []error{nil, vrpc.ProcUnavail, vrpc.GarbageArgs, vrpc.SystemErr, vrpc.AuthTooWeak, vrpc.SystemErr,
		vrpc.SystemErr, vrpc.ProgMismatch, nil}
	for i, want := range want {
		err := c.Call(t.Context(), procFail, &number{int32(i)}, &xdr.Void{})
		if !errors.Is(err, want) || (want == nil) != (err == nil) {
			t.Errorf("procedure returns %v: %v, want %v", failures[i], err, want)
		}
	}
	if err := c.Call(t.Context(), procFail, &number{failPanic}, &xdr.Void{}); !errors.Is(err, vrpc.SystemErr) {
		t.Errorf("panic: %v", err)
	}
	if n := s.Snapshot(); n.Panics != 1 || n.Programs[0].Accepted[vrpc.SystemErr] != 4 || n.Programs[0].Denied != 1 {
		t.Errorf("counted %+v", n)
	}
}

// What the server finds wrong with a call that it does not dispatch.
func TestStatusOfDispatch(t *testing.T) {
	s := newServer(t, vrpc.ServerConfig{})
	for _, version := range []uint32{5, 9} {
		if err := s.Register(&vrpc.Program{Number: testProg, Version: version}); err != nil {
			t.Fatal(err)
		}
	}
	c := newDirect(t, s, nil)
	var rpc *vrpc.RPCError
	err := c.Program(testProg, 4).Ping(t.Context())
	if !errors.Is(err, vrpc.ProgMismatch) || !errors.As(err, &rpc) || rpc.Low != testVers || rpc.High != 9 {
		t.Errorf("other version: %v", err)
	}
	if err := c.Program(testProg+1, 1).Ping(t.Context()); !errors.Is(err, vrpc.ProgUnavail) {
		t.Errorf("other program: %v", err)
	}
	if err := c.Call(t.Context(), 77, &xdr.Void{}, &xdr.Void{}); !errors.Is(err, vrpc.ProcUnavail) {
		t.Errorf("other procedure: %v", err)
	}
	for _, args := range []xdr.Marshaler{&number{1}, &blob{make([]byte, 16)}} { // too few, too many
		if err := c.Call(t.Context(), procAdd, args, &number{}); !errors.Is(err, vrpc.GarbageArgs) {
			t.Errorf("arguments %v: %v", args, err)
		}
	}
	if !s.Unregister(testProg, 5) || s.Unregister(testProg, 5) {
		t.Error("Unregister does not report what was there")
	}
	if err := c.Program(testProg, 5).Ping(t.Context()); !errors.Is(err, vrpc.ProgMismatch) {
		t.Errorf("unregistered version: %v", err)
	}
}

func TestRegisterRefuses(t *testing.T) {
	s := newServer(t, vrpc.ServerConfig{})
	if err := s.Register(testProgram()); err == nil {
		t.Error("a version was registered twice")
	}
	run := func(*vrpc.Call) error { return nil }
	for _, procs := range [][]vrpc.Procedure{{{Number: 1}}, {{Number: 1, Run: run}, {Number: 1, Run: run}}} {
		if err := s.Register(&vrpc.Program{Number: 1, Procedures: procs}); err == nil {
			t.Errorf("registered %v", procs)
		}
	}
}

// words returns 32-bit numbers in their encoding.
func words(list ...uint32) (p []byte) {
	for _, w := range list {
		p = binary.BigEndian.AppendUint32(p, w)
	}
	return p
}

// Messages byte for byte, as RFC 5531 section 9 writes them.
func TestWire(t *testing.T) {
	s := newServer(t, vrpc.ServerConfig{})
	call := func(rest ...uint32) []byte { return words(append([]uint32{7, 0, 2, testProg, testVers}, rest...)...) }
	accepted := func(rest ...uint32) []byte { return words(append([]uint32{7, 1, 0, 0, 0}, rest...)...) }
	denied := func(rest ...uint32) []byte { return words(append([]uint32{7, 1, 1}, rest...)...) }
	for _, c := range []struct {
		name       string
		msg, reply []byte
	}{
		{"success", call(procAdd, 0, 0, 0, 0, 1, 2), accepted(0, 3)},
		{"null procedure", call(0, 0, 0, 0, 0), accepted(0)},
		{"null procedure with an argument", call(0, 0, 0, 0, 0, 99), accepted(0)},
		{"verifier that nobody wants", call(0, 0, 0, 0, 4, 1), accepted(0)},
		{"RPC version 3", words(7, 0, 3, testProg, testVers, 0, 0, 0, 0, 0), denied(0, 2, 2)},
		{"RPC version 3 and no more", words(7, 0, 3), denied(0, 2, 2)},
		{"no program", words(7, 0, 2, 1, testVers, 0, 0, 0, 0, 0), accepted(1)},
		{"version", words(7, 0, 2, testProg, 1, 0, 0, 0, 0, 0), accepted(2, 3, 3)},
		{"no procedure", call(77, 0, 0, 0, 0), accepted(3)},
		{"garbage", call(procAdd, 0, 0, 0, 0, 1), accepted(4)},
		{"system", call(procFail, 0, 0, 0, 0, failPanic), accepted(5)},
		{"no credential", call(0), denied(1, 1)},
		{"credential of 401 bytes", append(call(0, 0, 401), make([]byte, 500)...), denied(1, 1)},
		{"credential longer than the call", call(0, 0, 100, 0), denied(1, 1)},
		{"no verifier", call(0, 0, 0), denied(1, 3)},
		{"verifier of 2^32-1 bytes", call(0, 0, 0, 0, 0xffffffff), denied(1, 3)},
		{"AUTH_SYS of half a credential", call(0, 1, 8, 1, 0, 0, 0), denied(1, 1)},
		{"AUTH_SYS with a verifier", call(0, 1, 20, 1, 0, 5, 6, 0, 1, 0), denied(1, 3)},
		{"AUTH_SYS with 17 groups", append(append(call(0, 1, 88, 1, 0, 5, 6, 17), make([]byte, 68)...), words(0, 0)...), denied(1, 1)},
		{"AUTH_SHORT of nobody", call(0, 2, 16, 1, 2, 3, 4, 0, 0), denied(1, 2)},
		{"AUTH_DH", call(0, 3, 0, 0, 0), denied(1, 2)},
		{"too weak", call(procWho, 0, 0, 0, 0), denied(1, 5)},
		{"no reply", call(procSilent, 0, 0, 0, 0), nil},
	} {
		ss := s.NewSession(t.Context(), vrpc.Peer{}, 1000)
		before := []byte("before")
		reply, err := ss.Answer(c.msg, slices.Clone(before))
		if err != nil || !bytes.Equal(reply, append(before, c.reply...)) {
			t.Errorf("%s: %x, %v, want %x", c.name, reply, err, c.reply)
		}
	}
	for _, msg := range [][]byte{nil, words(7), words(7, 1), words(7, 1, 0, 0, 0, 0), words(7, 0), words(7, 0, 2, testProg), {0, 0, 0, 7, 0, 0}} {
		if reply, err := s.NewSession(t.Context(), vrpc.Peer{}, 1000).Answer(msg, nil); err == nil || len(reply) > 0 {
			t.Errorf("%x is no call, but was answered with %x", msg, reply)
		}
	}
}

// A reply that does not fit is SystemErr, and its results are not sent.
func TestReplyTooLarge(t *testing.T) {
	s := newServer(t, vrpc.ServerConfig{})
	ss := s.NewSession(t.Context(), vrpc.Peer{}, 100)
	msg, _ := xdr.Append(words(7, 0, 2, testProg, testVers, procEcho, 0, 0, 0, 0), &blob{make([]byte, 100)})
	reply, err := ss.Answer(msg, nil)
	if want := words(7, 1, 0, 0, 0, 5); err != nil || !bytes.Equal(reply, want) {
		t.Errorf("%x, %v", reply, err)
	}
}

func TestAuthorize(t *testing.T) {
	s := vrpc.NewServer(&vrpc.ServerConfig{Logger: quiet()})
	defer s.Close()
	p := testProgram()
	p.Authorize = func(c *vrpc.Call) vrpc.AuthStat {
		switch c.Procedure() {
		case procAdd:
			return vrpc.AuthRejectedVerf
		case procEcho:
			panic("as told")
		}
		return vrpc.AuthOK
	}
	if err := s.Register(p); err != nil {
		t.Fatal(err)
	}
	c := newDirect(t, s, nil)
	err := c.Call(t.Context(), procAdd, &pair{}, &number{})
	if !errors.Is(err, vrpc.AuthRejectedVerf) || !errors.Is(err, vrpc.AuthError) || errors.Is(err, vrpc.AuthTooWeak) {
		t.Errorf("refused by Authorize: %v", err)
	}
	if err := c.Call(t.Context(), procEcho, &blob{}, &blob{}); !errors.Is(err, vrpc.AuthFailed) {
		t.Errorf("Authorize panics: %v", err)
	}
	if err := c.Ping(t.Context()); err != nil {
		t.Errorf("procedure 0: %v", err)
	}
	if err := c.Call(t.Context(), procCount, &xdr.Void{}, &number{}); err != nil {
		t.Error(err)
	}
}

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

// TestLogHandlerBlocks: a handler of log lines that blocks keeps no caller from the answer that
// a procedure has failed, nor the server from closing.
func TestLogHandlerBlocks(t *testing.T) {
	block := make(chan struct{})
	defer close(block)
	s := vrpc.NewServer(&vrpc.ServerConfig{Logger: slog.New(logtest.Handler(func(string) { <-block }))})
	if err := s.Register(testProgram()); err != nil {
		t.Fatal(err)
	}
	c := listen(t, s, "tcp", nil)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for range 3 {
		if err := c.Call(ctx, procFail, &number{failPanic}, &xdr.Void{}); !errors.Is(err, vrpc.SystemErr) {
			t.Fatalf("a call that fails: %v", err)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestDump: what became of calls is in the text of a snapshot.
func TestDump(t *testing.T) {
	s := newServer(t, vrpc.ServerConfig{})
	text := func() string {
		var b strings.Builder
		s.Snapshot().WriteTo(&b)
		return b.String()
	}
	if got := text(); !strings.Contains(got, "nothing has come") {
		t.Errorf("before any call:\n%s", got)
	}
	c := newDirect(t, s, nil)
	if err := c.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.Program(testProg, 99).Ping(t.Context()); err == nil {
		t.Error("a version that is not there answers")
	}
	got := text()
	for _, want := range []string{"RPC server  0 connections open\n  no version 1\n", "PROGRAM", "SYSTEM ERROR"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

// TestLingeringClients: clients that pass files which take for ever to close hold up neither other
// clients nor the end of the server.
func TestLingeringClients(t *testing.T) {
	s := newServer(t, vrpc.ServerConfig{MaxPeerConns: 3})
	addr, err := s.Listen("unix", filepath.Join(t.TempDir(), "socket"))
	if err != nil {
		t.Fatal(err)
	}
	var conns []*net.UnixConn
	for range 6 { // the last ones are refused
		conn, err := net.DialUnix("unix", nil, addr.(*net.UnixAddr))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fd := lingertest.Socket(t)
		conn.WriteMsgUnix([]byte{0x80}, unix.UnixRights(fd), nil) // fails where the kernel refuses descriptors, or the server did
		passfd.Promptly(func() { unix.Close(fd) })
		conns = append(conns, conn)
	}
	until(t, s, "connections of one user", func(n vrpc.Snapshot) bool { return n.ConnsRefused == 3 })
	conns[0].Close()
	until(t, s, "a connection's end", func(n vrpc.Snapshot) bool { return n.ConnsOpen == 2 })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := dial(t, "unix", addr.String(), nil).Ping(ctx); err != nil {
		t.Errorf("another client's call: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
