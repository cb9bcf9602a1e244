// Package nodeagent implements the node's agent, `bobnet agent`. The agent opens packet sockets for
// programs without permission, according to a policy. It locks the sockets' receive filters, makes
// the kernel check what programs send, and collects metrics and dumps from programs. Package
// internal/link/agent is the programs' side.
package nodeagent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/link/agent"
	"github.com/bobnet-go/bobnet/internal/logqueue"
	"github.com/bobnet-go/bobnet/internal/passfd"
	"github.com/mdlayher/ethernet"
	"golang.org/x/sys/unix"
)

const blockSize = agent.BlockSize

// Config configures a Server.
type Config struct {
	// Path of the socket; "" is agent.DefaultPath.
	Path string
	// Policy returns the current policy. It is called for each request. Nil allows root only.
	Policy func() (Policy, error)
	// Interfaces lists the names of the served interfaces; nil means all.
	Interfaces []string
	// EtherTypes lists the EtherTypes that programs may use; nil means ethertype.Default.
	EtherTypes []ethernet.EtherType
	// MaxBlocks is the maximum number of blocks of 1024 ports for a user, over all interfaces; 0 means
	// DefaultMaxBlocks.
	MaxBlocks int
	// Unguarded disables the kernel's check of frames that programs send, and its cost. Programs with
	// sockets may then send anything. The receive filters are locked all the same.
	Unguarded bool
	// Logger receives rare, human-readable events; nil means none. Its handler is called as described
	// at vipl.Config.Logger, and may block.
	Logger *slog.Logger
}

// DefaultMaxBlocks is the default of Config.MaxBlocks: half of the blocks of an interface.
const DefaultMaxBlocks = 32

// Server is a running agent. It may be shared between goroutines.
type Server struct {
	cfg    Config
	listen *net.UnixListener
	guard  *guard // nil: Unguarded
	limits limits

	giving sync.Mutex       // held while a request is decided
	held   map[block]uint32 // user of each block, as far as known

	mu       sync.Mutex
	programs map[*Program]bool
	conns    map[*net.UnixConn]bool
	closed   bool
	wg       sync.WaitGroup
}

// Listen creates the socket, and takes over the state of an earlier agent. It fails with EADDRINUSE
// if an agent serves there.
func Listen(cfg Config) (*Server, error) {
	if cfg.Path == "" {
		cfg.Path = agent.DefaultPath
	}
	if cfg.EtherTypes == nil {
		cfg.EtherTypes = []ethernet.EtherType{ethertype.Default}
	}
	if cfg.MaxBlocks <= 0 {
		cfg.MaxBlocks = DefaultMaxBlocks
	}
	if cfg.Policy == nil {
		cfg.Policy = func() (Policy, error) { return Policy{}, nil }
	}
	cfg.Logger = logqueue.New(cfg.Logger).Logger()
	if _, err := cfg.Policy(); err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, held: map[block]uint32{}, programs: map[*Program]bool{}, conns: map[*net.UnixConn]bool{}}
	s.limits.init(4 * cfg.MaxBlocks) // for each block a link and the report of its program; the others are reports without a block
	var err error
	if !cfg.Unguarded {
		if s.guard, err = newGuard(rand.Uint32()); err != nil {
			return nil, err
		}
	}
	if s.listen, err = listen(cfg.Path); err != nil {
		return nil, err
	}
	return s, nil
}

// listen creates a socket at path. All users may connect; the policy decides about their requests. It
// replaces the socket of a dead agent.
func listen(path string) (*net.UnixListener, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("node agent: %w", err)
	}
	if c, err := net.Dial("unix", path); err == nil {
		c.Close()
		return nil, fmt.Errorf("node agent: %w: another agent serves at %s (stop it, or choose another path)", unix.EADDRINUSE, path)
	}
	if info, err := os.Lstat(path); err == nil && info.Mode().Type() == fs.ModeSocket {
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("node agent: a dead agent's socket is in the way: %w (remove it, or choose another path)", err)
		}
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("node agent: %w", err)
	}
	if err := os.Chmod(path, 0o666); err != nil {
		l.Close()
		return nil, fmt.Errorf("node agent: %w", err)
	}
	return l, nil
}

// Serve serves until ctx is done, then closes the server.
func (s *Server) Serve(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { s.Close() })
	defer stop()
	if s.guard != nil {
		links, err := watchLinks(ctx, s.guard, s.cfg.Logger)
		if err != nil {
			return errors.Join(err, s.Close())
		}
		defer links()
	}
	for {
		conn, err := s.listen.AcceptUnix()
		switch {
		case errors.Is(err, net.ErrClosed):
			return s.Close()
		case err != nil: // for example too many open files: existing connections continue
			s.cfg.Logger.Warn("node agent: accept", "err", err)
			select {
			case <-ctx.Done():
			case <-time.After(acceptPause):
			}
			continue
		}
		s.serveInBackground(conn)
	}
}

const acceptPause = 100 * time.Millisecond

// serveInBackground serves a connection on a new goroutine.
func (s *Server) serveInBackground(conn *net.UnixConn) {
	cred, err := passfd.PeerOf(conn)
	if err != nil || !s.limits.enter(cred.Uid) {
		passfd.Refuse(conn)
		return
	}
	leave := func() { s.limits.leave(cred.Uid) }
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		passfd.CloseConn(cred.Uid, conn, leave)
		return
	}
	s.conns[conn] = true
	s.wg.Go(func() {
		s.serve(conn, cred)
		s.mu.Lock()
		delete(s.conns, conn)
		s.mu.Unlock()
		passfd.CloseConn(cred.Uid, conn, leave)
	})
}

// requestPatience is the maximum time for a program to send its request and to read the reply.
const requestPatience = 5 * time.Second

// serve serves a connection until it ends.
func (s *Server) serve(conn *net.UnixConn, cred *unix.Ucred) {
	conn.SetDeadline(time.Now().Add(requestPatience))
	var r agent.Request
	fds, err := agent.Read(conn, &r, agent.MaxRequest)
	if err != nil {
		passfd.Close(cred.Uid, fds...)
		return
	}
	if err := s.limits.wait(cred.Uid); err != nil {
		passfd.Close(cred.Uid, fds...)
		conn.SetDeadline(time.Now().Add(requestPatience))
		agent.Write(conn, &agent.Reply{Refusal: agent.Busy, Error: err.Error()})
		return
	}
	program := s.give(conn, cred, &r, fds)
	if program == nil {
		return
	}
	conn.SetDeadline(time.Time{})
	if program.Tells {
		s.cfg.Logger.Info("program reports its state", "user", cred.Uid, "process", cred.Pid, "program", program.Name)
	} else {
		s.cfg.Logger.Info("sockets", "user", cred.Uid, "process", cred.Pid, "program", program.Name, "interface", program.Interface, "ports", program.Ports, "again", r.Held)
	}
	s.attend(program)
}

// give decides about a request and replies. It returns nil if nothing was granted. It handles one
// request at a time, including closing the agent's own descriptors. So concurrent requests
// cannot exceed the limits together, and ports are free as soon as their program has ended.
func (s *Server) give(conn *net.UnixConn, cred *unix.Ucred, r *agent.Request, fds []int) *Program {
	s.giving.Lock()
	defer s.giving.Unlock()
	conn.SetDeadline(time.Now().Add(requestPatience))
	refusal, err := s.judge(conn, r, cred)
	var grant *agent.Grant
	if err == nil && !r.Tells {
		grant, refusal, err = s.decide(r, cred, fds)
	}
	if err != nil {
		passfd.Close(cred.Uid, fds...)
		s.cfg.Logger.Info("refused", "user", cred.Uid, "process", cred.Pid, "interface", r.Interface, "err", err)
		agent.Write(conn, &agent.Reply{Refusal: refusal, Error: err.Error()}) // fits the buffer of the socket, as all replies: it does not block
		return nil
	}
	p := newProgram(conn, cred)
	if r.Tells {
		p.Tells = true
		passfd.Close(cred.Uid, fds...)
		if agent.Write(conn, &agent.Reply{}) != nil {
			return nil
		}
		return p
	}
	defer grant.Close(cred.Uid) // the program has its own descriptors
	var give []int
	if !r.Held {
		if r.Near {
			if err := grant.MakeNear(cred.Uid); err != nil {
				s.cfg.Logger.Warn("cannot create a program's names within the host", "user", cred.Uid, "ports", grant.Ports, "err", err)
			}
		}
		give = grant.Descriptors()
	}
	if agent.Write(conn, &agent.Reply{Ports: grant.Ports, Long: grant.Long, Near: grant.Near(), Device: grant.Guard.Device}, give...) != nil {
		return nil
	}
	p.Interface, p.Ports = grant.Interface.Name, grant.Ports
	return p
}

// attend keeps a program in the list until its connection ends.
func (s *Server) attend(p *Program) {
	s.mu.Lock()
	for p.Tells && s.numbered(p) {
		p.Number++
	}
	s.programs[p] = true
	s.mu.Unlock()
	p.run(s.limits.roomOf(p.UID))
	s.mu.Lock()
	delete(s.programs, p)
	s.mu.Unlock()
	s.cfg.Logger.Info("program left", "user", p.UID, "process", p.PID, "program", p.Name)
}

// numbered reports whether another program has the number of p. The caller must hold s.mu.
func (s *Server) numbered(p *Program) bool {
	for other := range s.programs {
		if other.Tells && other.PID == p.PID && other.Number == p.Number {
			return true
		}
	}
	return false
}

// Programs returns the connected programs by process: first the whole program, then its links in the
// order of their ports.
func (s *Server) Programs() []*Program {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*Program
	for p := range s.programs {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b *Program) int { return compare(a, b) })
	return all
}

// Close ends the server. Granted sockets remain usable.
func (s *Server) Close() error {
	s.mu.Lock()
	s.closed = true
	for c := range s.conns {
		passfd.HangUp(c)
	}
	s.mu.Unlock()
	passfd.CloseListener(s.listen) // removes the socket; a second call has no effect
	s.wg.Wait()
	logqueue.New(s.cfg.Logger).Flush(logFlush)
	return nil
}

// logFlush is the maximum wait of Close for the last log lines.
const logFlush = 100 * time.Millisecond
