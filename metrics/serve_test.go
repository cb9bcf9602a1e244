package metrics_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/metrics"
	"golang.org/x/sys/unix"
)

// TestServeIndex: / says what is served, and nothing else is.
func TestServeIndex(t *testing.T) {
	server, err := metrics.Serve("127.0.0.1:0", metrics.NewCollector(nil))
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	for path, want := range map[string]int{"/": http.StatusOK, "/elsewhere": http.StatusNotFound} {
		resp, err := http.Get("http://" + server.Addr().String() + path)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s answers %s, want %d", path, resp.Status, want)
		}
		if text := string(body); want == http.StatusOK && (!strings.Contains(text, "/metrics") || !strings.Contains(text, "/debug/bobnet")) {
			t.Errorf("the index is %q", text)
		}
	}
}

// TestServeLocal: an address without a host is this host's alone.
func TestServeLocal(t *testing.T) {
	server, err := metrics.Serve(":0", metrics.NewCollector(nil))
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	if at := server.Addr().(*net.TCPAddr); !at.IP.IsLoopback() || at.Port == 0 {
		t.Errorf("it serves at %v, want a port of localhost", at)
	}
	told, err := metrics.Serve("0.0.0.0:0", metrics.NewCollector(nil))
	if err != nil {
		t.Fatal(err)
	}
	defer told.Close()
	if at := told.Addr().(*net.TCPAddr); !at.IP.IsUnspecified() {
		t.Errorf("it serves at %v although it was told all addresses", at)
	}
}

// TestServeSlowClients: who does not end its request is cut off, in the header as
// well as before it.
func TestServeSlowClients(t *testing.T) {
	metrics.ShortTimeouts(t, 10*time.Millisecond)
	server, err := metrics.Serve("127.0.0.1:0", metrics.NewCollector(nil))
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	for _, said := range []string{"", "GET / HTTP/1.1\r\nHost: x\r\nX-Half: ", "GET / HTTP/1.1\r\nHost: x\r\n\r\n"} {
		conn, err := net.Dial("tcp", server.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(conn, said)
		if _, err := io.ReadAll(conn); err != nil { // ends when the server does
			t.Errorf("after %q: %v", said, err)
		}
		conn.Close()
	}
}

// TestServeManyClients: a user who opens connections without end, each with half a request, has some
// of them, and others are served.
func TestServeManyClients(t *testing.T) {
	if os.Geteuid() != 0 {
		need.Skip(t, "root, to connect as another user")
	}
	metrics.ShortTimeouts(t, time.Hour)
	server, err := metrics.Serve("127.0.0.1:0", metrics.NewCollector(nil))
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	const many, most = 300, 32
	var ended atomic.Int64
	for range many {
		fd := socketOf(t, 4321)
		to := unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}, Port: server.Addr().(*net.TCPAddr).Port}
		if err := unix.Connect(fd, &to); err != nil {
			t.Fatal(err)
		}
		f := os.NewFile(uintptr(fd), "")
		conn, err := net.FileConn(f)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		io.WriteString(conn, "GET / HTTP/1.1\r\nX-Half: ")
		go func() {
			conn.Read(make([]byte, 1))
			ended.Add(1)
		}()
	}
	for end := time.Now().Add(time.Minute); ended.Load() < many-most; runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("%d of %d connections of one user are ended, want all but %d", ended.Load(), many, most)
		}
	}
	resp, err := http.Get("http://" + server.Addr().String() + "/")
	if err != nil {
		t.Fatal(err)
	}
	if resp.Body.Close(); resp.StatusCode != http.StatusOK {
		t.Errorf("another user gets %s", resp.Status)
	}
}

// socketOf returns a TCP socket of a user.
func socketOf(t *testing.T, uid int) (fd int) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Setfsuid(uid); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err := errors.Join(err, unix.Setfsuid(0)); err != nil {
		t.Fatal(err)
	}
	return fd
}
