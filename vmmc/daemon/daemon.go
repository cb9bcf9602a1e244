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

// Config configures a daemon.
type Config struct {
	// NIC is the daemon's NIC; the caller keeps it and closes it. If nil, Open opens one by VIPL.
	NIC *vipl.NIC
	// VIPL configures the NIC that Open opens.
	VIPL vipl.Config
	// Socket is the daemon's socket; empty means the socket where processes look by default. A name
	// that begins with @ is in the abstract name space.
	Socket string
	// Logger receives rare, human-readable events; nil means slog.Default(). The handler may block;
	// vipl.Config.Logger describes when it is called.
	Logger *slog.Logger
}

// maxProcesses limits the processes of a node.
const maxProcesses = 1 << 14

// Limits for questions to and from other daemons: how many run at a time, how many of them for one user or
// node, and how many of one node wait. The table limits how many of one user wait.
const (
	maxAsks, maxUserAsks                = 128, 32
	maxReplies, maxNodeReplies, maxLate = 64, 16, 64
)

// Daemon is the VMMC daemon of a node. Goroutines may share it.
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
	asks    errands[uint32]        // requests that verify tickets, by user
	reports errands[uint32]        // reports of deaths, by user of the dead process
	replies errands[ethertype.MAC] // responses to other daemons, by node
	once    sync.Once

	mu    sync.Mutex
	table *table
	conns map[*net.UnixConn]struct{}
}

// Open starts a daemon. Then call Run, and finally Close. A nil cfg means defaults.
//
// Open may block as vipl.Open does. ctx limits only this call, not the life of the daemon. If ctx
// ends first, the error wraps the context's error.
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

// listen opens the daemon's socket, at name if not empty, and then its place on the segment. Only
// one daemon of the node can hold the socket.
func (d *Daemon) listen(name string) (err error) {
	if name == "" {
		name = directory.Socket(d.nic.Addr().MAC)
		d.socket, err = directory.Listen(d.nic.Addr().MAC)
	} else {
		d.socket, err = net.ListenUnix("unixpacket", &net.UnixAddr{Name: name, Net: "unixpacket"})
	}
	switch {
	case errors.Is(err, unix.EADDRINUSE):
		return fmt.Errorf("vmmc daemon: listen at %[2]s: %[1]s already uses it: %[3]w", holder(name), name, err)
	case err != nil:
		return fmt.Errorf("vmmc daemon: listen at %s: %w", name, err)
	}
	if d.seg, err = newSegment(d.nic); err != nil {
		return fmt.Errorf("vmmc daemon: %w", err)
	}
	d.seg.answer, d.seg.sleep = d.answer, d.sleep
	return nil
}

// holder describes the process that listens at a socket.
func holder(name string) string {
	conn, err := directory.Connect(name)
	if err != nil {
		return "a file without a listener, or another process,"
	}
	defer conn.Close()
	who, err := directory.PeerOf(conn)
	if err != nil {
		return "another process"
	}
	return fmt.Sprintf("process %d of user %d", who.Pid, who.Uid)
}

// NIC returns the daemon's NIC.
func (d *Daemon) NIC() *vipl.NIC { return d.nic }

// Socket returns the name of the socket at which processes find the daemon.
func (d *Daemon) Socket() string { return d.socket.Addr().String() }

// Run serves until ctx ends, or Close. The end of ctx is not an error.
func (d *Daemon) Run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { d.Close() })
	defer stop()
	d.spawn(d.accept)
	served := make(chan error, 1)
	d.spawn(func() { served <- d.seg.serve(d.ctx, d.replies.runWhenFree) })
	return errors.Join(<-served, d.Close())
}

func (d *Daemon) spawn(f func()) {
	d.work.Add(1)
	go func() {
		defer d.work.Done()
		f()
	}()
}

// Close stops the daemon and waits for it. Existing imports stay. A second call does nothing.
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

// logFlush limits how long Close waits for the handler to write the last lines of the log.
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
