package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/bobnet-go/bobnet/vmmc/internal/directory"
	"github.com/bobnet-go/bobnet/vmmc/internal/provider"
	"golang.org/x/sys/unix"
)

// Config says how to open a daemon.
type Config struct {
	// NIC is the daemon's, and stays the caller's; if it is nil, one is opened by VIPL.
	NIC *vipl.NIC
	// VIPL says how to open the NIC.
	VIPL vipl.Config
	// Socket is where processes find the daemon; empty means where they look by
	// themselves. It begins with an @ if its name is in the abstract name space.
	Socket string
	// Logger is told what a person may want to know; nil means stderr.
	Logger *slog.Logger
}

// maxProcesses bounds the processes of a node.
const maxProcesses = 1 << 14

// maxReplies bounds the questions of other daemons that are answered at a time, maxAsks
// those about tickets that are asked, and maxReports the deaths that are reported.
const (
	maxReplies = 64
	maxAsks    = 128
	maxReports = 128
)

// Daemon is the daemon of a node. It may be shared between goroutines.
type Daemon struct {
	nic     *vipl.NIC
	own     bool // nic is closed with it
	log     *slog.Logger
	socket  *net.UnixListener
	seg     *segment
	ctx     context.Context // ends with it
	end     context.CancelFunc
	work    sync.WaitGroup
	asks    chan struct{} // a place for each
	reports chan struct{}
	once    sync.Once

	mu    sync.Mutex
	table *table
	conns map[*net.UnixConn]struct{}
}

// Open starts a daemon. Run it, and close it.
func Open(cfg *Config) (*Daemon, error) {
	d := &Daemon{nic: cfg.NIC, log: cfg.Logger, asks: make(chan struct{}, maxAsks), reports: make(chan struct{}, maxReports),
		conns: map[*net.UnixConn]struct{}{}}
	if d.log == nil {
		d.log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	if d.nic == nil {
		v := cfg.VIPL
		if v.Logger == nil {
			v.Logger = d.log
		}
		var err error
		if d.nic, err = vipl.Open(&v); err != nil {
			return nil, err
		}
		d.own = true
	}
	d.ctx, d.end = context.WithCancel(context.Background())
	node := d.nic.Addr().MAC
	d.table = newTable(node, (*doing)(d), directory.NewTicket)
	name := cfg.Socket
	if name == "" {
		name = directory.Socket(node)
	}
	if err := d.listen(name); err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

// listen opens the daemon's two doors: the socket first, which there is one of.
func (d *Daemon) listen(name string) (err error) {
	d.socket, err = net.ListenUnix("unixpacket", &net.UnixAddr{Name: name, Net: "unixpacket"})
	switch {
	case errors.Is(err, unix.EADDRINUSE):
		return fmt.Errorf("vmmc daemon: %s listens at %s already: %w", holder(name), name, err)
	case err != nil:
		return fmt.Errorf("vmmc daemon: listen at %s: %w", name, err)
	}
	if d.seg, err = newSegment(d.nic); err != nil {
		return fmt.Errorf("vmmc daemon: %w", err)
	}
	d.seg.answer, d.seg.sleep = d.answer, d.sleep
	return nil
}

// holder says who listens at a socket.
func holder(name string) string {
	conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: name, Net: "unixpacket"})
	if err != nil {
		return "a file that nobody listens at, or another process,"
	}
	defer conn.Close()
	who, err := directory.PeerOf(conn)
	if err != nil {
		return "another process"
	}
	return fmt.Sprintf("process %d of user %d", who.Pid, who.Uid)
}

// NIC returns the daemon's NIC, and Socket where processes find it.
func (d *Daemon) NIC() *vipl.NIC { return d.nic }

// Socket returns the name of the socket that processes find the daemon at.
func (d *Daemon) Socket() string { return d.socket.Addr().String() }

// Run serves until ctx ends, which is no error, or Close.
func (d *Daemon) Run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { d.Close() })
	defer stop()
	d.spawn(d.accept)
	served := make(chan error, 1)
	d.spawn(func() { served <- d.seg.serve(d.ctx, d.replying()) })
	return errors.Join(<-served, d.Close())
}

// replying returns what runs replies beside each other, a few at a time.
func (d *Daemon) replying() func(func()) {
	places := make(chan struct{}, maxReplies)
	return func(f func()) {
		places <- struct{}{}
		d.spawn(func() {
			defer func() { <-places }()
			f()
		})
	}
}

func (d *Daemon) spawn(f func()) {
	d.work.Add(1)
	go func() {
		defer d.work.Done()
		f()
	}()
}

// Close ends the daemon, and waits until it has. What is imported stays so. A second call
// does nothing.
func (d *Daemon) Close() (err error) {
	d.once.Do(func() {
		d.end()
		if d.socket != nil {
			d.socket.Close()
		}
		d.mu.Lock()
		for conn := range d.conns {
			conn.Close()
		}
		d.mu.Unlock()
		if d.seg != nil {
			d.seg.close()
		}
		d.work.Wait()
		if d.own {
			err = d.nic.Close()
		}
	})
	return err
}

// accept takes processes until the daemon ends.
func (d *Daemon) accept() {
	for {
		conn, err := d.socket.AcceptUnix()
		if err != nil {
			if d.ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return
			}
			d.log.Warn("vmmc daemon: a process cannot be let in", "err", err)
			if d.sleep(askAgain) != nil { // no descriptors are left, for example
				return
			}
			continue
		}
		d.mu.Lock()
		full := len(d.conns) >= maxProcesses || d.ctx.Err() != nil
		if !full {
			d.conns[conn] = struct{}{}
		}
		d.mu.Unlock()
		if full {
			d.log.Warn("vmmc daemon: there are too many processes", "limit", maxProcesses)
			conn.Close()
			continue
		}
		d.spawn(func() { d.attend(conn) })
	}
}

// greetTime is how long a process may take to say what it speaks.
const greetTime = 5 * time.Second

// attend hears one process until it ends.
func (d *Daemon) attend(conn *net.UnixConn) {
	defer func() {
		conn.Close()
		d.mu.Lock()
		delete(d.conns, conn)
		d.mu.Unlock()
	}()
	who, err := directory.PeerOf(conn)
	if err != nil || !greet(conn) {
		return
	}
	d.mu.Lock()
	c := d.table.connect(who.Pid, who.Uid, conn)
	d.mu.Unlock()
	ended := d.hear(conn, c)
	d.mu.Lock()
	defer d.mu.Unlock()
	if ended && d.ctx.Err() == nil {
		if c.entered && !c.left {
			d.log.Info("vmmc daemon: a process has ended", "process", c.self.Process, "scope", c.scope, "pid", c.pid)
		}
		d.table.ended(c)
	} else {
		d.table.leave(c)
	}
}

// greet exchanges greetings, and reports whether the process speaks the same. If not it
// is told the daemon's version, and says so itself.
func greet(conn *net.UnixConn) bool {
	var b [directory.MaxMessage]byte
	_ = conn.SetReadDeadline(time.Now().Add(greetTime))
	n, err := conn.Read(b[:])
	_ = conn.SetReadDeadline(time.Time{})
	version, ok := directory.ParseGreeting(b[:n])
	if err != nil || !ok || directory.WriteNow(conn, directory.AppendGreeting(nil, directory.Version)) != nil {
		return false
	}
	return version == directory.Version
}

// hear takes in what a process says. It reports whether the process has ended, and was not
// left for what it did.
func (d *Daemon) hear(conn *net.UnixConn, c *client) (ended bool) {
	b := make([]byte, directory.MaxMessage+1)
	for again := true; ; {
		n, err := conn.Read(b)
		if errors.Is(err, unix.ECONNRESET) && again { // it had unread messages: its last ones come behind that
			again = false
			continue
		}
		if err != nil || n == 0 {
			return !errors.Is(err, net.ErrClosed)
		}
		m, ok := directory.Parse(b[:n])
		d.mu.Lock()
		ok = ok && d.table.hear(c, &m)
		left := c.left
		d.mu.Unlock()
		if !ok {
			if !left {
				d.log.Warn("vmmc daemon: a process breaks the protocol, and is left", "pid", c.pid, "user", c.uid)
			}
			return false
		}
	}
}

// answer answers another daemon.
func (d *Daemon) answer(asker ethertype.MAC, q *question) (uid uint32, known bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if q.what == died {
		d.table.died(q.who)
		return 0, true
	}
	return d.table.whose(q.ticket, q.who, ethertype.Addr{MAC: asker, Port: q.port})
}

func (d *Daemon) sleep(t time.Duration) error {
	timer := time.NewTimer(t)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-d.ctx.Done():
		return d.ctx.Err()
	}
}

// doing is the daemon as the world of its table. The lock is held in all of it.
type doing Daemon

var _ world = (*doing)(nil)

func (w *doing) tell(c *client, m directory.Message) {
	conn := c.conn.(*net.UnixConn)
	if err := directory.WriteNow(conn, m.Append(make([]byte, 0, directory.MaxMessage))); err != nil && !errors.Is(err, unix.EPIPE) {
		// It does not listen. When it does again it finds that it is alone, and comes back.
		conn.Close()
	}
}

func (w *doing) gone(c *client) bool {
	raw, err := c.conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return true
	}
	gone := false
	if raw.Control(func(fd uintptr) {
		polled := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
		n, err := unix.Poll(polled, 0)
		gone = err == nil && n > 0 && polled[0].Revents&(unix.POLLHUP|unix.POLLRDHUP|unix.POLLERR) != 0
	}) != nil {
		return true
	}
	return gone
}

func (w *doing) advertise(name string, addr ethertype.Addr) {
	if err := w.nic.Advertise(name, addr); err != nil {
		w.log.Warn("vmmc daemon: a process is not found by other nodes", "err", err)
	}
}

func (w *doing) withdraw(name string) { w.nic.Withdraw(name) }

func (w *doing) seek(want *want) {
	d := (*Daemon)(w)
	ctx, cancel := context.WithCancel(d.ctx)
	want.stop = cancel
	d.spawn(func() {
		defer cancel()
		addr, err := directory.Look(ctx, d.nic, want.key)
		d.mu.Lock()
		defer d.mu.Unlock()
		switch {
		case err == nil:
			d.table.found(want, addr)
		case ctx.Err() == nil:
			d.table.fail(want, err)
		}
	})
}

// asking runs f beside, when there is a place for it.
func (d *Daemon) asking(places chan struct{}, f func()) {
	d.spawn(func() {
		select {
		case places <- struct{}{}:
		case <-d.ctx.Done():
			return
		}
		defer func() { <-places }()
		f()
	})
}

func (w *doing) ask(p *proof) {
	d := (*Daemon)(w)
	d.asking(d.asks, func() {
		var uid uint32
		known := false
		if p.ticket != (provider.Ticket{}) {
			known = d.seg.persist(askTime, func() (ok bool) {
				uid, ok = d.whose(p)
				return ok
			})
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		d.table.answered(p, uid, known)
	})
}

// whose asks once whose a ticket is.
func (d *Daemon) whose(p *proof) (uid uint32, known bool) {
	d.mu.Lock()
	at := p.c.self.Addr
	d.mu.Unlock()
	if p.from.Addr.MAC == at.MAC {
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.table.whose(p.ticket, p.from, at)
	}
	uid, known, err := d.seg.ask(d.ctx, p.from.Addr.MAC, &question{what: whose, who: p.from, ticket: p.ticket, port: at.Port})
	if err != nil {
		d.log.Debug("vmmc daemon: the daemon of a node does not say whose an importer is", "node", p.from.Addr.MAC, "err", err)
	}
	return uid, known
}

func (w *doing) report(node ethertype.MAC, dead provider.Identity) {
	d := (*Daemon)(w)
	d.asking(d.reports, func() {
		var err error
		if !d.seg.persist(reportTime, func() bool {
			_, _, err = d.seg.ask(d.ctx, node, &question{what: died, who: dead})
			return err == nil
		}) {
			d.log.Debug("vmmc daemon: the daemon of a node does not hear of a death", "node", node, "err", err)
		}
	})
}

// Snapshot is the state of a daemon at a moment.
type Snapshot struct {
	Node      ethertype.MAC
	Processes []Process // in the order of their numbers
	Stats     Stats
}

// Process is one of the node's.
type Process struct {
	Scope    string
	Process  uint32
	Addr     ethertype.Addr
	PID      int32 // 0 if it is of another pid namespace
	UID      uint32
	Exports  int
	Words    []string
	Matching int // imports whose exporter is not found yet
}

// Snapshot returns the state of the daemon, for people and for metrics.
func (d *Daemon) Snapshot() Snapshot {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := Snapshot{Node: d.table.node, Stats: d.table.stats}
	for c := range d.table.clients {
		if !c.entered {
			continue
		}
		p := Process{Scope: c.scope, Process: c.self.Process, Addr: c.self.Addr, PID: c.pid, UID: c.uid, Exports: len(c.exports), Matching: len(c.wants)}
		for word := range c.words {
			p.Words = append(p.Words, word)
		}
		slices.Sort(p.Words)
		s.Processes = append(s.Processes, p)
	}
	slices.SortFunc(s.Processes, func(a, b Process) int { return a.Addr.Compare(b.Addr) })
	return s
}
