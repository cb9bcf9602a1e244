package runsocket

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
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

// TestNamespaces: two network namespaces have different directories, and the threads of one have the same.
func TestNamespaces(t *testing.T) {
	if os.Geteuid() != 0 {
		need.Skip(t, "root, to make namespaces")
	}
	own, err := namespace()
	if err != nil {
		t.Fatal(err)
	}
	if again, err := namespace(); err != nil || again != own {
		t.Errorf("%s, then %s, %v", own, again, err)
	}
	seen := map[string]bool{own: true}
	for range 3 {
		other := startTenant(t, t.TempDir())
		if ns := filepath.Base(other.dir); seen[ns] {
			t.Errorf("two namespaces are called %s", ns)
		} else {
			seen[ns] = true
		}
		other.finish(t)
	}
}

// TestLeftByRoot: what root's dead servers have left under the very names that a user's servers would have
// there, in a network namespace of the user's own, does not keep the user's servers from running, nor
// programs from finding them.
func TestLeftByRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		need.Skip(t, "root, to leave files that a user cannot remove")
	}
	for name, leave := range map[string]func(dir string) error{
		"nothing":      func(string) error { return nil },
		"an empty one": func(dir string) error { return os.Mkdir(dir, 0o755) },
		"dead sockets": func(dir string) error {
			ports := filepath.Join(dir, tenantPorts)
			if err := os.MkdirAll(ports, 0o755); err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(dir, ".lock"), nil, 0o600); err != nil {
				return err
			}
			for _, file := range []string{filepath.Join(dir, tenantServer+".sock"), filepath.Join(ports, "1")} {
				l, err := net.ListenUnix("unix", &net.UnixAddr{Name: file, Net: "unix"})
				if err != nil {
					return err
				}
				l.SetUnlinkOnClose(false) // as if it were killed
				if err := errors.Join(l.Close(), os.Chmod(file, 0o666)); err != nil {
					return err
				}
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			if err := os.Chmod(filepath.Dir(root), 0o755); err != nil { // users may look into /run
				t.Fatal(err)
			}
			c := startTenant(t, root)
			if err := leave(c.dir); err != nil {
				t.Fatal(err)
			}
			c.finish(t)
		})
	}
}

const (
	tenantEnv    = "RUNSOCKET_TENANT" // holds the directory of root's sockets
	tenantServer = "card-1"
	tenantPorts  = "ports-card-1"
)

// tenant is a process of a user without rights, who is root in a user namespace with a network namespace.
type tenant struct {
	dir string // that of its network namespace
	cmd *exec.Cmd
	in  interface{ Close() error }
	out *bufio.Reader
}

// startTenant starts a tenant that waits for finish.
func startTenant(t *testing.T, root string) *tenant {
	t.Helper()
	c := &tenant{cmd: exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestTenant$")}
	c.cmd.Env = append(os.Environ(), tenantEnv+"="+root)
	c.cmd.Stderr = os.Stderr
	const uid = 4321
	id := []syscall.SysProcIDMap{{HostID: uid, Size: 1}}
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNET, UidMappings: id, GidMappings: id,
		Credential: &syscall.Credential{}}
	in, err := c.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Start(); errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSPC) {
		need.Skip(t, "user namespaces: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	c.in, c.out = in, bufio.NewReader(out)
	line, err := c.out.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	c.dir = strings.TrimSpace(line)
	return c
}

// finish lets the tenant go on, and waits for it.
func (c *tenant) finish(t *testing.T) {
	t.Helper()
	c.in.Close()
	var said strings.Builder
	c.out.WriteTo(&said)
	if err := c.cmd.Wait(); err != nil {
		t.Errorf("the tenant: %v\n%s", err, said.String())
	}
}

// TestTenant is what a tenant does.
func TestTenant(t *testing.T) {
	if directory = os.Getenv(tenantEnv); directory == "" {
		t.Skip("no tenant")
	}
	ns, err := namespace()
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println(filepath.Join(directory, ns))
	os.Stdin.Read(make([]byte, 1))
	if dir, err := Directory(strings.ReplaceAll(tenantPorts, "-", "/")); dir != "" || err != nil {
		t.Errorf("a directory to write: %q, %v", dir, err)
	}
	l, err := Listen("unix", strings.ReplaceAll(tenantServer, "-", "/"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conn, err := Dial("unix", strings.ReplaceAll(tenantServer, "-", "/"))
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	name := NameOf("@bobnet/" + tenantServer + "/1")
	if file, err := name.Bind(stream(t), nil); file || err != nil {
		t.Errorf("a name: file %v, %v", file, err)
	}
	if err := name.TryFile(stream(t)); !unwritable(err) {
		t.Errorf("a file: %v", err)
	}
}
