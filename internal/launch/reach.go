package launch

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/bobnet-go/bobnet/internal/keep"
	"golang.org/x/sys/unix"
)

// SSH is the default of Config.SSH. Its options make ssh fail instead of prompting, and end when a
// host is down.
var SSH = []string{"ssh", "-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3"}

// remote is the head's state of a node.
type remote struct {
	host       Host
	program    string    // path of the bobnet command there
	ranks      []int     // the ranks that it runs
	keep.Group           // the command that reaches it
	life       io.Closer // the node's standard input: closing it ends the node
	*writer
	hears   *hearing
	in      *bufio.Reader // the node's output
	told    chan *message // queued messages, while it has ranks
	said    *tail         // standard error of the command
	heard   chan struct{} // closed when standard error has ended
	running map[int]bool  // ranks that have not ended
	lost    bool          // its connection is closed
}

// reach starts a node on a host. It does not wait for the greeting.
func (c *Config) reach(h Host) (*remote, error) {
	node := append([]string{c.Program}, c.nodeArgs()...)
	if h.local() {
		node[0] = c.Own
	} else {
		for i, word := range node {
			node[i] = quote(word)
		}
		node = append(append([]string(nil), c.SSH...), h.Name, "exec "+strings.Join(node, " "))
	}
	r := &remote{host: h, program: c.Program, Group: keep.Group{Cmd: exec.Command(node[0], node[1:]...)}, said: &tail{}, heard: make(chan struct{})}
	if h.local() {
		r.Args[0] = "bobnet" // whatever the name of the file
	}
	// A new session shields the command from the terminal's signals, and keeps it from prompting there.
	r.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	in, err := r.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := r.StdoutPipe()
	var says io.ReadCloser
	if err == nil {
		says, err = r.StderrPipe()
	}
	if err == nil {
		err = r.Start()
	}
	if err != nil {
		in.Close()
		return nil, fmt.Errorf("is unreachable: %w", err)
	}
	go func() {
		defer close(r.heard)
		io.Copy(r.said, says)
	}()
	r.life, r.writer, r.hears = in, &writer{w: in}, &hearing{from: out.(*os.File)}
	r.in = bufio.NewReader(r.hears)
	return r, nil
}

// nodeArgs returns the program's arguments for a node.
func (c *Config) nodeArgs() []string {
	args := []string{"node"}
	if c.Interface != "" {
		args = append(args, "--iface", c.Interface)
	}
	if c.Driver != "" {
		args = append(args, "--driver", c.Driver)
	}
	if c.KeyFile != "" {
		args = append(args, "--key", c.KeyFile)
	}
	return args
}

// quote quotes a word for a shell.
func quote(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

// greet returns the inventory of the host, or why it sent none.
func (r *remote) greet(ctx context.Context, timeout time.Duration) (*Inventory, error) {
	late := make(chan struct{})
	timer := time.AfterFunc(timeout, func() {
		close(late)
		r.kill()
	})
	defer timer.Stop()
	defer context.AfterFunc(ctx, r.kill)()
	inv, err := greet(r.in)
	if err == nil {
		return inv, nil
	}
	r.kill()
	ended := r.reap()
	select {
	case <-late:
		err = fmt.Errorf("did not answer within %v (does ssh prompt for something, or does the host hang?)", timeout)
	default:
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if errors.Is(err, io.EOF) {
			err = r.unreached(ended)
		}
	}
	if text := r.said.String(); text != "" {
		err = fmt.Errorf("%w: %s", err, text)
	}
	return nil, err
}

// unreached returns the error for a command that has ended before the node sent its greeting. Exit
// codes 126 and 127 come from a shell there that cannot execute or find the bobnet command.
func (r *remote) unreached(ended error) error {
	var exit *exec.ExitError
	if errors.As(ended, &exit) && !r.host.local() {
		switch exit.ExitCode() {
		case 127:
			return &noProgram{"has no " + r.program + " (install the same bobnet there, or set its path with --program)"}
		case 126:
			return &noProgram{"cannot execute " + r.program + " (install the same bobnet there, or set its path with --program)"}
		}
	}
	if ended == nil {
		return errors.New("is unreachable")
	}
	return fmt.Errorf("is unreachable: %s: %w", r.Args[0], ended)
}

// noProgram is the error for a host that was reached but cannot run the bobnet command.
type noProgram struct{ text string }

func (e *noProgram) Error() string { return e.text }

// loss describes why a node is lost.
func (r *remote) loss(err error) string {
	state := "connection lost"
	if !errors.Is(err, io.EOF) {
		state = err.Error()
	}
	if text := r.said.String(); text != "" {
		state += ": " + text
	}
	return state
}

// kill kills the command that reaches the node. The node ends with it.
func (r *remote) kill() { r.Signal(unix.SIGKILL) }

// reap waits for the command and for its standard error, but only for a short time: the reader of
// that output may be stopped, or a descendant of the command may hold it open.
func (r *remote) reap() error {
	keep.AwaitEnd(r.Process.Pid)
	select {
	case <-r.heard:
	case <-time.After(grace):
	}
	return r.Group.Reap()
}

// leave ends the node, and waits until the command has ended. If the node does not end, it closes
// the connection, which ends the node on its host.
func (r *remote) leave() {
	r.life.Close()
	timer := time.AfterFunc(2*grace, r.kill)
	r.reap()
	timer.Stop()
}

// tail keeps the end of a command's standard error, for error texts.
type tail struct {
	mu   sync.Mutex
	text []byte
	pass io.Writer // gets a copy; nil: none
}

const maxTail = 1000

// Write implements io.Writer. It can block on pass; String does not.
func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	t.text = append(t.text, b...)
	if n := len(t.text) - maxTail; n > 0 {
		t.text = append(t.text[:0], t.text[n:]...)
	}
	pass := t.pass
	t.mu.Unlock()
	if pass != nil {
		pass.Write(b)
	}
	return len(b), nil
}

// String returns the text in one line.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.Join(strings.Fields(string(t.text)), " ")
}

// passOn copies further output to w.
func (t *tail) passOn(w io.Writer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pass = w
}

// shared lets ssh commands share connections. The command that opens a connection listens on a
// socket in a private folder of this user; others use the connection through it. The connection
// closes with the command that opened it, after the others have ended.
type shared struct {
	dir     string    // "": nothing is shared
	life    io.Closer // closing it removes the folder
	remover *exec.Cmd
}

// maxControlDir is the maximum length of the folder for ssh's socket in bytes: an address has 107
// bytes, of which ssh needs 40 for a name, 17 for a temporary suffix, and a slash.
const maxControlDir = 107 - 40 - 17 - 1

// share makes the commands that shared.ssh returns share connections, if c.SSH is OpenSSH and its
// user has not configured sharing. Sharing is only an optimisation: if it is impossible, or ssh does
// not report its configuration within c.Timeout, each command opens its own connection.
func (c *Config) share(ctx context.Context) *shared {
	var remote []Host
	for _, h := range c.Hosts {
		if !h.local() {
			remote = append(remote, h)
		}
	}
	if len(remote) == 0 || !c.sharable(ctx, remote) {
		return &shared{}
	}
	dir, err := os.MkdirTemp("", "bobnet")
	if err != nil {
		return &shared{}
	}
	s := &shared{dir: dir}
	if len(dir) > maxControlDir || s.keep() != nil {
		os.Remove(dir)
		return &shared{}
	}
	return s
}

// keep starts a process that removes the folder when this process ends, in whatever way.
func (s *shared) keep() error {
	s.remover = exec.Command("/bin/sh", "-c", `read -r line; exec rm -rf -- "$1"`, "sh", s.dir)
	s.remover.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // Ctrl-C must not reach it
	life, err := s.remover.StdinPipe()
	if err != nil {
		return err
	}
	s.life = life
	return s.remover.Start()
}

// sharable reports whether, for all hosts, c.SSH would not share connections by its own
// configuration. Programs other than OpenSSH have no -G, and never qualify.
func (c *Config) sharable(ctx context.Context, hosts []Host) bool {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	var all sync.WaitGroup
	no := make(chan struct{}, len(hosts))
	for _, h := range hosts {
		all.Go(func() {
			if !c.saysUnshared(ctx, h) {
				no <- struct{}{}
			}
		})
	}
	all.Wait()
	return len(no) == 0
}

// saysUnshared asks ssh for its configuration for a host, until ctx ends: a command in that
// configuration (Match exec) may hang.
func (c *Config) saysUnshared(ctx context.Context, h Host) bool {
	if name := filepath.Base(c.SSH[0]); name != "ssh" { // -G may mean anything to another program
		return false
	}
	var out bytes.Buffer
	ssh := &keep.Group{Cmd: exec.Command(c.SSH[0], append(append([]string(nil), c.SSH[1:]...), "-G", h.Name)...)}
	ssh.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	ssh.Stdout, ssh.WaitDelay = &out, grace
	if ssh.Start() != nil {
		return false
	}
	defer context.AfterFunc(ctx, func() { ssh.Signal(unix.SIGKILL) })()
	if ssh.Reap() != nil {
		return false
	}
	known := false
	for lines := bufio.NewScanner(&out); lines.Scan(); {
		switch option, value, _ := strings.Cut(lines.Text(), " "); option {
		case "controlmaster":
			known = value == "false"
		case "controlpath":
			if value != "none" {
				return false
			}
		}
	}
	return known
}

// ssh returns an ssh command that shares connections. option tells whether it opens a connection for
// others.
func (s *shared) ssh(argv []string, option string) []string {
	if s.dir == "" {
		return argv
	}
	return append(append([]string(nil), argv...), "-o", "ControlPath="+s.dir+"/%C", "-o", "ControlPersist=no", "-o", option)
}

// end removes the folder. Connections that are still shared remain open.
func (s *shared) end() {
	if s.dir != "" {
		s.life.Close()
		s.remover.Wait()
	}
}
