package runsocket

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/need"
	"golang.org/x/sys/unix"
)

// TestRoot: root's server starts though another program has its abstract name, is found, is the
// only one, and takes the place of one that was killed.
func TestRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		need.Skip(t, "root, to be the server of")
	}
	directory = t.TempDir()
	squatter, err := net.Listen("unix", Abstract("test/1"))
	if err != nil {
		t.Fatal(err)
	}
	defer squatter.Close()
	for range 2 {
		l, err := Listen("unix", "test/1")
		if err != nil {
			t.Fatal(err)
		}
		c, err := Dial("unix", "test/1")
		if err != nil {
			t.Fatal(err)
		}
		if to := c.RemoteAddr().String(); !strings.HasPrefix(to, directory) {
			t.Errorf("connected to %s", to)
		}
		c.Close()
		if _, err := Listen("unix", "test/1"); !errors.Is(err, unix.EADDRINUSE) {
			t.Errorf("a second server: %v, want EADDRINUSE", err)
		}
		l.SetUnlinkOnClose(false) // as if it were killed
		l.Close()
	}
	c, err := Dial("unix", "test/1")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if to := c.RemoteAddr().String(); to != Abstract("test/1") {
		t.Errorf("after root's server has ended, connected to %s", to)
	}
}

// TestElsewhere: without a directory to write the name is an abstract one.
func TestElsewhere(t *testing.T) {
	directory = "/proc/no such place"
	l, err := Listen("unix", "test/2")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := Dial("unix", "test/2")
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	l.Close()
	if _, err := Dial("unix", "test/2"); !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("without a server: %v, want ECONNREFUSED", err)
	}
}

// TestPrune: a server that starts removes what servers of namespaces have left that are gone, and
// nothing that is in use, or was made a moment ago.
func TestPrune(t *testing.T) {
	if os.Geteuid() != 0 {
		need.Skip(t, "root, to be the server of")
	}
	directory = t.TempDir()
	old := time.Now().Add(-time.Hour)
	stay := func(name string) *net.UnixListener {
		dir := filepath.Join(directory, name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "a.sock"), Net: "unix"})
		if err := errors.Join(err, os.Chtimes(dir, old, old)); err != nil {
			t.Fatal(err)
		}
		return l
	}
	left := stay("net-1")
	left.SetUnlinkOnClose(false)
	left.Close()
	used := stay("net-2")
	defer used.Close()
	if err := os.Mkdir(filepath.Join(directory, "net-3"), 0o755); err != nil {
		t.Fatal(err)
	}
	l, err := Listen("unix", "test/3")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for name, want := range map[string]bool{"net-1": false, "net-2": true, "net-3": true} {
		if _, err := os.Stat(filepath.Join(directory, name)); (err == nil) != want {
			t.Errorf("%s is there: %v, want %v", name, err == nil, want)
		}
	}
	used.SetDeadline(time.Unix(1, 0))
	if _, err := used.Accept(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a server was disturbed: %v", err)
	}
}
