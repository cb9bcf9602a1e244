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

// SSH is the command by which hosts are reached, unless Config.SSH names another one. It
// never asks: who cannot answer is nobody at the terminal. It ends when a host has gone.
var SSH = []string{"ssh", "-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3"}

// remote is a node as the head has it.
type remote struct {
	host       Host
	program    string    // the file of the bobnet command there
	ranks      []int     // that it is to run
	keep.Group           // that reaches it
	life       io.Closer // the node's standard input: it ends with that
	*writer
	hears   *hearing
	in      *bufio.Reader // from there
	told    chan *message // what it is yet to be sent, while it has ranks
	said    *tail         // what the command says on standard error
	heard   chan struct{} // closed when it has said all
	running map[int]bool  // ranks that have not ended
	lost    bool          // its connection is closed, or was cut
}

// reach starts a node on a host, which has said nothing yet.
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
		r.Args[0] = "bobnet" // whatever the file is called
	}
	// A session of its own keeps the terminal's signals away, and has it ask nothing there.
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
		return nil, fmt.Errorf("cannot be reached: %w", err)
	}
	go func() {
		defer close(r.heard)
		io.Copy(r.said, says)
	}()
	r.life, r.writer, r.hears = in, &writer{w: in}, &hearing{from: out.(*os.File)}
	r.in = bufio.NewReader(r.hears)
	return r, nil
}

// nodeArgs returns what makes the program a node.
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

// quote makes a word one of a shell.
func quote(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

// greet returns what the host says of itself, or why it says nothing.
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
		err = fmt.Errorf("has not answered within %v: does it ask for something, or hang?", timeout)
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

// unreached says why the command that was to reach the host has ended without a word of the
// node. The exit codes are those of a shell there that has not found the bobnet command, or
// may not run it.
func (r *remote) unreached(ended error) error {
	var exit *exec.ExitError
	if errors.As(ended, &exit) && !r.host.local() {
		switch exit.ExitCode() {
		case 127:
			return &noProgram{"has no " + r.program + ": put the same bobnet there, or name its file by --program"}
		case 126:
			return &noProgram{"cannot run " + r.program + ": put the same bobnet there, or name its file by --program"}
		}
	}
	if ended == nil {
		return errors.New("cannot be reached")
	}
	return fmt.Errorf("cannot be reached: %s: %w", r.Args[0], ended)
}

// noProgram says that a host has been reached, and has no bobnet command.
type noProgram struct{ text string }

func (e *noProgram) Error() string { return e.text }

// loss says what has become of a node of which there is no more to hear.
func (r *remote) loss(err error) string {
	state := "the connection to it was lost"
	if !errors.Is(err, io.EOF) {
		state = err.Error()
	}
	if text := r.said.String(); text != "" {
		state += ": " + text
	}
	return state
}

// kill ends the command that reaches the node, and with it the node.
func (r *remote) kill() { r.Signal(unix.SIGKILL) }

// reap waits for the command, and for what it has said, but not for long: whoever takes that
// may be stopped, and something that it has left behind may hold its output.
func (r *remote) reap() error {
	keep.AwaitEnd(r.Process.Pid)
	select {
	case <-r.heard:
	case <-time.After(grace):
	}
	return r.Group.Reap()
}

// leave has the node end, and waits until the command has. A node that does not end has
// its connection cut, which ends it where it is.
func (r *remote) leave() {
	r.life.Close()
	timer := time.AfterFunc(2*grace, r.kill)
	r.reap()
	timer.Stop()
}

// tail is the end of what a command has said, for error texts.
type tail struct {
	mu   sync.Mutex
	text []byte
	pass io.Writer // where it goes besides; nil: nowhere
}

const maxTail = 1000

// Write implements io.Writer. While nobody takes what is passed on it waits, and String does
// not.
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

// String returns it in one line.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.Join(strings.Fields(string(t.text)), " ")
}

// passOn has what is said from here on go to w, too.
func (t *tail) passOn(w io.Writer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pass = w
}

// shared is how commands share ssh's connections: the one that makes a connection listens
// on a socket in a folder of this user's alone, and others go through it. A connection ends
// with the command that made it, when the others have ended.
type shared struct {
	dir     string    // "": nothing is shared
	life    io.Closer // while it is open the folder is there
	remover *exec.Cmd
}

// maxControlDir is the longest folder in which ssh can make its socket: the address takes 107
// octets, of which a name of 40, a suffix of 17 while it is made, and a slash are ssh's.
const maxControlDir = 107 - 40 - 17 - 1

// share has the commands that shared.ssh returns share connections, if c.SSH is OpenSSH,
// and its user has not told it how to share them himself. Nothing depends on it: where
// connections cannot be shared, or ssh does not say so within c.Timeout, each command makes
// its own.
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

// keep starts what removes the folder when this process ends, in whatever way.
func (s *shared) keep() error {
	s.remover = exec.Command("/bin/sh", "-c", `read -r line; exec rm -rf -- "$1"`, "sh", s.dir)
	s.remover.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // Ctrl-C is not for it
	life, err := s.remover.StdinPipe()
	if err != nil {
		return err
	}
	s.life = life
	return s.remover.Start()
}

// sharable reports whether c.SSH says of all hosts that it would share no connection unless
// it is told to. Other programs than OpenSSH have no -G, and say nothing of the kind.
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

// saysUnshared asks ssh what it would do for a host, until ctx ends: what its user has it run
// to find that out (Match exec) may hang.
func (c *Config) saysUnshared(ctx context.Context, h Host) bool {
	if name := filepath.Base(c.SSH[0]); name != "ssh" { // another program may take -G for anything
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

// ssh returns an ssh command that shares connections, with one option more: whether it
// makes one for others.
func (s *shared) ssh(argv []string, option string) []string {
	if s.dir == "" {
		return argv
	}
	return append(append([]string(nil), argv...), "-o", "ControlPath="+s.dir+"/%C", "-o", "ControlPersist=no", "-o", option)
}

// end removes the folder. Connections that are still shared go on.
func (s *shared) end() {
	if s.dir != "" {
		s.life.Close()
		s.remover.Wait()
	}
}
