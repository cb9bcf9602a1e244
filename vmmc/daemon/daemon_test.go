package daemon_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/logtest"
	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/bobnet-go/bobnet/vmmc"
	"github.com/bobnet-go/bobnet/vmmc/daemon"
	"github.com/bobnet-go/bobnet/vmmc/internal/directory"
	"github.com/bobnet-go/bobnet/vmmc/internal/provider"
	"golang.org/x/sys/unix"
)

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// patience only keeps a test that hangs from hanging for ever.
func patience(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// socket is a name that no other daemon has: those of the system's processes are found by
// the tests of other packages, too.
func socket(t *testing.T) string { return fmt.Sprintf("@bobnet/test/%d/%s", os.Getpid(), t.Name()) }

// scopeOf is a scope of this run of the test alone: shared memory is one segment for all of the host.
func scopeOf(t *testing.T) string { return fmt.Sprint(t.Name(), os.Getpid()) }

func openNIC(t *testing.T) *vipl.NIC {
	nic, err := vipl.Open(t.Context(), &vipl.Config{Driver: "shm", Logger: quiet})
	check(t, err)
	t.Cleanup(func() { nic.Close() })
	return nic
}

// start starts a daemon, which ends with the test.
func start(t *testing.T) *daemon.Daemon { return startLogging(t, quiet) }

// startLogging is start with a logger.
func startLogging(t *testing.T, log *slog.Logger) *daemon.Daemon {
	d, err := daemon.Open(t.Context(), &daemon.Config{NIC: openNIC(t), Socket: socket(t), Logger: log})
	check(t, err)
	ran := make(chan error, 1)
	go func() { ran <- d.Run(context.Background()) }()
	t.Cleanup(func() {
		if err := errors.Join(d.Close(), d.Close(), <-ran); err != nil {
			t.Error(err)
		}
	})
	return d
}

func open(t *testing.T, number uint32, socket string) *vmmc.Process {
	p, err := vmmc.Open(t.Context(), &vmmc.Config{NIC: openNIC(t), Process: number, Job: scopeOf(t), Daemon: socket, Logger: quiet})
	check(t, err)
	t.Cleanup(func() { p.Close() })
	return p
}

// TestUsers: a policy by user lets in whose user the daemons prove, and refuses others and
// those without a daemon, with a word about why.
func TestUsers(t *testing.T) {
	ctx := patience(t)
	start(t)
	uid := uint32(os.Geteuid())
	p, q, alone := open(t, 1, socket(t)), open(t, 2, socket(t)), open(t, 3, vmmc.NoDaemon)
	for id, user := range []uint32{uid, uid + 1} {
		_, err := p.Export(make([]byte, 64), uint32(id), vmmc.Policy{Users: []uint32{user}}, nil)
		check(t, err)
	}
	i, err := q.Import(ctx, vmmc.Name{Process: 1, ID: 0})
	check(t, err)
	check(t, q.SendMsg(ctx, []byte{1}, i.Addr()))
	if _, err := q.Import(ctx, vmmc.Name{Process: 1, ID: 1}); !errors.Is(err, vmmc.ErrDenied) {
		t.Errorf("an import for another user: %v", err)
	}
	// A process without a daemon is found by its own answer, and finds others by theirs:
	// the daemon answers for its processes.
	_, err = alone.Import(ctx, vmmc.Name{Process: 1, ID: 0})
	if !errors.Is(err, vmmc.ErrDenied) || !strings.Contains(err.Error(), "bobnet daemon") {
		t.Errorf("an import by a user whom nobody proves: %v", err)
	}
	_, err = alone.Export(make([]byte, 64), 7, vmmc.Everybody, nil)
	check(t, err)
	_, err = q.Import(ctx, vmmc.Name{Process: 3, ID: 7})
	check(t, err)
}

// TestWords: an import waits until the process is there, and a word names an export.
func TestWords(t *testing.T) {
	ctx := patience(t)
	start(t)
	q := open(t, 2, socket(t))
	made := make(chan error, 2)
	for _, f := range []func() (*vmmc.Import, error){
		func() (*vmmc.Import, error) { return q.ImportWord(ctx, "board") },
		func() (*vmmc.Import, error) { return q.Import(ctx, vmmc.Name{Process: 1, ID: 5}) },
	} {
		go func() {
			_, err := f()
			made <- err
		}()
	}
	p := open(t, 1, socket(t))
	e, err := p.Export(make([]byte, 64), 5, vmmc.Everybody, nil)
	check(t, err)
	check(t, e.Advertise("board"))
	check(t, <-made)
	check(t, <-made)
	if n := len(e.Importers()); n != 2 {
		t.Errorf("%d importers", n)
	}
	check(t, e.Unexport(ctx))
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	if _, err := q.ImportWord(short, "board"); err == nil {
		t.Error("a word that is not advertised any more names something")
	}
}

// TestRestart: the daemon's end cuts no import, and a new one knows the processes, their
// exports and whose they are. An import that waits meanwhile is made.
func TestRestart(t *testing.T) {
	ctx := patience(t)
	d := start(t)
	uid := uint32(os.Geteuid())
	p, q := open(t, 1, socket(t)), open(t, 2, socket(t))
	buf := make([]byte, 64)
	e, err := p.Export(buf, 1, vmmc.Policy{Users: []uint32{uid}}, nil)
	check(t, err)
	check(t, e.Advertise("board"))
	i, err := q.Import(ctx, vmmc.Name{Process: 1, ID: 1})
	check(t, err)
	waiting := q.ImportStart(vmmc.Name{Process: 1, ID: 2}) // with a ticket of the first daemon, or a question to it
	check(t, d.Close())
	check(t, q.SendMsg(ctx, []byte{1, 0, 0, 0}, i.Addr()))
	made := make(chan error, 1)
	go func() {
		_, err := q.ImportWord(ctx, "board")
		made <- err
	}()
	start(t)
	check(t, <-made)
	_, err = p.Export(make([]byte, 64), 2, vmmc.Policy{Users: []uint32{uid}}, nil)
	check(t, err)
	check(t, waiting.Wait(ctx))
	check(t, q.SendMsg(ctx, []byte{2, 0, 0, 0}, i.Addr()))
	_, err = p.WaitWord(ctx, vmmc.Word(buf, 0), 1)
	check(t, err)
}

// TestErrors: what keeps a process from its daemon is said.
func TestErrors(t *testing.T) {
	try := func(what string, want error, words ...string) {
		t.Helper()
		p, err := vmmc.Open(t.Context(), &vmmc.Config{NIC: openNIC(t), Process: 1, Job: scopeOf(t), Daemon: socket(t), Logger: quiet})
		if err == nil {
			p.Close()
		}
		if !errors.Is(err, want) {
			t.Errorf("%s: %v", what, err)
			return
		}
		for _, word := range words {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%s: %v does not say %q", what, err, word)
			}
		}
	}
	try("no daemon", vmmc.ErrDaemon, "no daemon runs", "bobnet daemon")

	l := listen(t, socket(t))
	answer := func(version uint32) {
		conn, err := l.AcceptUnix()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		var b [directory.MaxMessage]byte
		_, _ = conn.Read(b[:])
		_ = directory.WriteNow(conn, directory.AppendGreeting(nil, version))
		_, _ = conn.Read(b[:])
	}
	go answer(directory.Version + 1)
	try("another version", vmmc.ErrDaemon, "version", fmt.Sprint(directory.Version+1))
	l.Close()

	if os.Geteuid() == 0 {
		l := listenAs(t, socket(t), 65534)
		try("another user's", vmmc.ErrDaemon, "user 65534", "root")
		l.Close()
	} else {
		need.Skip(t, "root, to be two users")
	}
}

func listen(t *testing.T, name string) *net.UnixListener {
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: name, Net: "unixpacket"})
	check(t, err)
	t.Cleanup(func() { l.Close() })
	return l
}

// listenAs is listen by a thread of another user, which ends then.
func listenAs(t *testing.T, name string, uid uintptr) *net.UnixListener {
	made := make(chan *net.UnixListener)
	go func() {
		runtime.LockOSThread() // and never unlock it: the thread is not to be used again
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, uid, uid, uid); errno != 0 {
			t.Error(errno)
		}
		l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: name, Net: "unixpacket"})
		if err != nil {
			t.Error(err)
		}
		made <- l
	}()
	l := <-made
	if l == nil {
		t.FailNow()
	}
	return l
}

// TestNumbers: a number is one process's, until it ends; a node has one daemon; a process
// of another node is not let in.
func TestNumbers(t *testing.T) {
	d := start(t)
	p := open(t, 1, socket(t))
	e, err := p.Export(make([]byte, 8), 3, vmmc.Everybody, nil)
	check(t, err)
	check(t, e.Advertise("word"))
	_, err = open(t, 2, socket(t)).ImportWord(patience(t), "word") // the daemon has heard of all that
	check(t, err)
	s := d.Snapshot()
	i := slices.IndexFunc(s.Processes, func(p daemon.Process) bool { return p.Process == 1 })
	if i < 0 || len(s.Processes) != 2 || s.Stats.Matches != 1 || s.Node != p.Self().Node {
		t.Fatalf("%+v", s)
	}
	if got := s.Processes[i]; got.Exports != 1 || !slices.Equal(got.Words, []string{"word"}) || int(got.PID) != os.Getpid() || got.Job != scopeOf(t) {
		t.Errorf("%+v", got)
	}
	_, err = vmmc.Open(t.Context(), &vmmc.Config{NIC: openNIC(t), Process: 1, Job: scopeOf(t), Daemon: socket(t), Logger: quiet})
	if !errors.Is(err, vmmc.ErrTaken) || !strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) {
		t.Errorf("a number that is taken: %v", err)
	}
	check(t, p.Close())
	open(t, 1, socket(t))
	_, err = daemon.Open(t.Context(), &daemon.Config{NIC: openNIC(t), Socket: socket(t), Logger: quiet})
	if !errors.Is(err, unix.EADDRINUSE) || !strings.Contains(err.Error(), fmt.Sprintf("process %d", os.Getpid())) {
		t.Errorf("a second daemon: %v", err)
	}
}

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
