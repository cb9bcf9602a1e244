package launch

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/bobnet-go/bobnet/internal/keep"
	"golang.org/x/sys/unix"
)

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
