package rpcbind

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/bobnet-go/bobnet/vmmc/vrpc"
)

const (
	// unsetPatience is how long the end of a server waits for rpcbind to take its entries out.
	unsetPatience = 5 * time.Second
	// startPause is between looks at an rpcbind that another process is just starting.
	startPause = 50 * time.Millisecond
	startLooks = 40
)

// Config says how a server is announced. The zero value is for most of them.
type Config struct {
	// Replace removes what is registered for the same programs and transports before. A
	// server that ended without Close leaves its entries behind.
	Replace bool
	// OnlySystem makes it an error if no rpcbind runs, instead of running one here.
	OnlySystem bool
	// Port and Socket are where rpcbind is looked for, and served; 0 and "" for the
	// constants of this package.
	Port   int
	Socket string
	// Server is for the rpcbind that runs here.
	Server ServerConfig
	// RPC bounds it.
	RPC vrpc.ServerConfig
}

// Announcement is what a server is registered as.
type Announcement struct {
	client *Client
	own    *vrpc.Server // rpcbind, if it is served here
	mu     sync.Mutex
	set    []Entry
}

// Announce registers all programs of s, at all its endpoints, with this machine's rpcbind. If
// none runs, it serves program 100000 itself, for other processes, too, until s is closed.
// When s is closed the entries are removed. Programs and endpoints that s gets later are
// announced by Update.
func Announce(ctx context.Context, s *vrpc.Server, cfg *Config) (*Announcement, error) {
	if cfg == nil {
		cfg = &Config{}
	}
	c := *cfg
	if c.Port == 0 {
		c.Port = Port
	}
	if c.Socket == "" {
		c.Socket = Socket
	}
	a, err := c.find(ctx)
	if err != nil {
		return nil, err
	}
	if err := a.register(ctx, s, c.Replace); err != nil {
		a.Close()
		return nil, err
	}
	s.OnClose(func() { a.Close() })
	return a, nil
}

// find connects with the machine's rpcbind, or becomes it. Of several processes that want to,
// the one wins that gets the port.
func (c *Config) find(ctx context.Context) (*Announcement, error) {
	for look := 1; ; look++ {
		client, err := Dial(ctx, "unix", c.Socket, nil)
		if err == nil {
			return &Announcement{client: client}, nil
		}
		if c.OnlySystem {
			return nil, fmt.Errorf("rpcbind: none answers at %s: start it, or leave OnlySystem out: %w", c.Socket, err)
		}
		a, err := c.serve()
		if err == nil || look == startLooks || !errors.Is(err, syscall.EADDRINUSE) {
			return a, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(startPause):
		}
	}
}

// serve begins rpcbind here.
func (c *Config) serve() (*Announcement, error) {
	own := vrpc.NewServer(&c.RPC)
	port := ":" + strconv.Itoa(c.Port)
	for _, at := range []struct{ network, address string }{{"tcp", port}, {"udp", port}, {"unix", c.Socket}} {
		if at.network == "unix" {
			removeStale(c.Socket)
		}
		if _, err := own.Listen(at.network, at.address); err != nil {
			own.Close()
			return nil, fmt.Errorf("rpcbind: no other runs, and this one cannot: %w", err)
		}
	}
	if err := os.Chmod(c.Socket, 0o666); err != nil { // everybody may register: the socket tells who it is
		own.Close()
		return nil, err
	}
	if err := NewServer(&c.Server).Register(own); err != nil {
		own.Close()
		return nil, err
	}
	rpc := vrpc.NewClient(vrpc.Direct(context.Background(), own), Program, Version4, nil)
	return &Announcement{client: &Client{rpc: rpc, version: Version4, netid: "direct"}, own: own}, nil
}

// removeStale removes a socket at which nobody listens any more.
func removeStale(path string) {
	if info, err := os.Lstat(path); err != nil || info.Mode().Type() != fs.ModeSocket {
		return
	}
	conn, err := net.Dial("unix", path)
	if err == nil {
		conn.Close()
		return
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		os.Remove(path)
	}
}

// Update announces what s has got since Announce: programs and endpoints.
func (a *Announcement) Update(ctx context.Context, s *vrpc.Server) error {
	return a.register(ctx, s, false)
}

func (a *Announcement) register(ctx context.Context, s *vrpc.Server, replace bool) error {
	for _, p := range s.Snapshot().Programs {
		if p.Program == Program {
			continue
		}
		for _, e := range s.Endpoints() {
			n := Entry{Program: p.Program, Version: p.Version, Netid: e.Netid, Addr: UniversalAddr(e.Addr)}
			if err := a.one(ctx, n, replace); err != nil {
				return err
			}
		}
	}
	return nil
}

func (a *Announcement) one(ctx context.Context, n Entry, replace bool) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, old := range a.set {
		if old == n {
			return nil
		}
	}
	if replace {
		if err := a.client.Unset(ctx, n.Program, n.Version, n.Netid); err != nil && !errors.Is(err, ErrRefused) {
			return err
		}
	}
	if err := a.client.Set(ctx, n); errors.Is(err, ErrRefused) {
		return fmt.Errorf("%w: another server has the program, or left its entry behind (Config.Replace)", err)
	} else if err != nil {
		return err
	}
	a.set = append(a.set, n)
	return nil
}

// Serving reports whether rpcbind runs here.
func (a *Announcement) Serving() bool { return a.own != nil }

// Entries returns what has been registered.
func (a *Announcement) Entries() []Entry {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]Entry(nil), a.set...)
}

// Close removes the entries, and ends the rpcbind that runs here. The server's Close does it,
// too. It may be called more than once.
func (a *Announcement) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), unsetPatience)
	defer cancel()
	a.mu.Lock()
	defer a.mu.Unlock()
	var errs []error
	for _, n := range a.set {
		errs = append(errs, a.client.Unset(ctx, n.Program, n.Version, n.Netid))
	}
	a.set = nil
	a.client.Close()
	if a.own != nil {
		if err := a.own.Close(); err != vrpc.ErrClosed {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
