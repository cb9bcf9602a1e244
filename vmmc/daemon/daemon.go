package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/logqueue"
	"github.com/bobnet-go/bobnet/internal/passfd"
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/bobnet-go/bobnet/vmmc/internal/directory"
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
	// Logger receives what a person may want to know; nil means slog.Default(). Its handler is called
	// as vipl.Config.Logger says, and may block.
	Logger *slog.Logger
}

// maxProcesses bounds the processes of a node.
const maxProcesses = 1 << 14

// Questions to other daemons, and of them: how many are under way at a time, how many of one user or node,
// and how many of one node wait. How many of one user wait the table bounds.
const (
	maxAsks, maxUserAsks                = 128, 32
	maxReplies, maxNodeReplies, maxLate = 64, 16, 64
)

// Daemon is the daemon of a node. It may be shared between goroutines.
type Daemon struct {
	nic     *vipl.NIC
	own     bool         // nic is closed with it
	log     *slog.Logger // that of logs: it is used under the lock, too
	logs    *logqueue.Queue
	socket  *net.UnixListener
	seg     *segment
	ctx     context.Context // ends with it
	end     context.CancelFunc
	work    sync.WaitGroup
	asks    errands[uint32]        // about tickets, by user
	reports errands[uint32]        // of deaths
	replies errands[ethertype.MAC] // by node
	once    sync.Once

	mu    sync.Mutex
	table *table
	conns map[*net.UnixConn]struct{}
}

// Open starts a daemon. Run it, and close it. A nil cfg means defaults.
//
// ctx bounds the call alone, not the life of the daemon. When it ends while Open waits, as
// vipl.Open may, or has ended before, the error wraps the context's.
func Open(ctx context.Context, cfg *Config) (*Daemon, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("vmmc daemon: open: %w", err)
	}
	if cfg == nil {
		cfg = &Config{}
	}
	d := &Daemon{nic: cfg.NIC, conns: map[*net.UnixConn]struct{}{}}
	d.asks = errands[uint32]{spawn: d.spawn, places: maxAsks, each: maxUserAsks}
	d.reports = errands[uint32]{spawn: d.spawn, places: maxAsks, each: maxUserAsks}
	d.replies = errands[ethertype.MAC]{spawn: d.spawn, places: maxReplies, each: maxNodeReplies, most: maxLate}
	d.logs = logqueue.New(cfg.Logger)
	d.log = d.logs.Logger()
	if d.nic == nil {
		v := cfg.VIPL
		if v.Logger == nil {
			v.Logger = d.log
		}
		var err error
		if d.nic, err = vipl.Open(ctx, &v); err != nil {
			return nil, err
		}
		d.own = true
	}
	d.ctx, d.end = context.WithCancel(context.Background())
	node := d.nic.Addr().MAC
	d.table = newTable(node, (*doing)(d), directory.NewTicket)
	if err := d.listen(cfg.Socket); err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

// listen opens the daemon's socket, at name if it has one, and then its place on the segment. Only
// one daemon of the node has the socket.
func (d *Daemon) listen(name string) (err error) {
	if name == "" {
		name = directory.Socket(d.nic.Addr().MAC)
		d.socket, err = directory.Listen(d.nic.Addr().MAC)
	} else {
		d.socket, err = net.ListenUnix("unixpacket", &net.UnixAddr{Name: name, Net: "unixpacket"})
	}
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
	conn, err := directory.Connect(name)
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
	d.spawn(func() { served <- d.seg.serve(d.ctx, d.replies.add) })
	return errors.Join(<-served, d.Close())
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
			passfd.CloseListener(d.socket)
		}
		d.mu.Lock()
		for conn := range d.conns {
			passfd.HangUp(conn)
		}
		d.mu.Unlock()
		if d.seg != nil {
			d.seg.close()
		}
		d.work.Wait()
		if d.own {
			err = d.nic.Close()
		}
		d.logs.Flush(logFlush)
	})
	return err
}

// logFlush is how long Close waits for the last lines of the log to be handled.
const logFlush = 100 * time.Millisecond

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
