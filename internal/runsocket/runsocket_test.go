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

// stream returns a stream socket.
func stream(t *testing.T) (fd int) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

// TestName: the abstract name is taken as long as it is free or its holder counts. Then root's socket has the
// file, against all others, until it is closed. Only the socket that has the file passes for it.
func TestName(t *testing.T) {
	if os.Geteuid() != 0 {
		need.Skip(t, "root, to make files of")
	}
	directory = t.TempDir()
	name := NameOf("@bobnet-test/name")
	first, second, third := stream(t), stream(t), stream(t)
	if file, err := name.Bind(first, nil); err != nil || file {
		t.Fatal(file, err)
	}
	counts := func(yes bool) func(Holder) bool {
		return func(h Holder) bool {
			if h.UID != 0 || !h.Listens {
				t.Errorf("the kernel says %+v", h)
			}
			return yes
		}
	}
	if _, err := name.Bind(second, nil); !errors.Is(err, unix.EADDRINUSE) {
		t.Errorf("without force: %v", err)
	}
	if _, err := name.Bind(second, counts(true)); !errors.Is(err, unix.EADDRINUSE) || name.Alive() {
		t.Errorf("a holder that counts: %v", err)
	}
	if file, err := name.Bind(second, counts(false)); err != nil || !file || name.Current() != name.File {
		t.Errorf("a holder that does not count: %v, %v", file, err)
	}
	if _, err := name.Bind(third, counts(false)); !errors.Is(err, unix.EADDRINUSE) {
		t.Errorf("the file has a holder: %v", err)
	}
	unix.Close(first)
	if _, err := name.Bind(third, counts(false)); !errors.Is(err, unix.EADDRINUSE) {
		t.Errorf("the file has a holder, and nobody has the abstract name: %v", err)
	}
	if has, err := HasFile(second, name.File); err != nil || !has {
		t.Errorf("its holder has the file: %v, %v", has, err)
	}
	if err := os.Remove(name.File); err != nil { // as if second were of another mount namespace
		t.Fatal(err)
	}
	fourth := stream(t)
	if err := name.TryFile(fourth); err != nil {
		t.Fatal(err)
	}
	if has, err := HasFile(second, name.File); err != nil || has {
		t.Errorf("a socket of the same name has the file: %v, %v", has, err)
	}
	unix.Close(fourth)
	name.Clean()
	if _, err := os.Lstat(name.File); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file is left: %v", err)
	}
}

// TestUmask: other users find root's sockets whatever its umask is.
func TestUmask(t *testing.T) {
	if os.Geteuid() != 0 {
		need.Skip(t, "root, to make files of")
	}
	directory = filepath.Join(t.TempDir(), "bobnet")
	defer unix.Umask(unix.Umask(0o077))
	name := NameOf("@bobnet-test/umask")
	name.File = strings.TrimSuffix(name.File, ".sock") + "/1"
	if err := name.TryFile(stream(t)); err != nil {
		t.Fatal(err)
	}
	for at := name.File; len(at) >= len(directory); at = filepath.Dir(at) {
		if info, err := os.Lstat(at); err != nil || info.Mode().Perm()&0o005 != 0o005 && info.IsDir() || info.Mode().Perm()&0o006 != 0o006 && !info.IsDir() {
			t.Errorf("%s: %v, %v", at, info.Mode(), err)
		}
	}
}
