package vmmc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/logqueue"
	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/bobnet-go/bobnet/vmmc/internal/directory"
	"github.com/bobnet-go/bobnet/vmmc/internal/provider"
	"github.com/bobnet-go/bobnet/vmmc/internal/via"
	"github.com/bobnet-go/bobnet/vmmc/lanai"
)

// Defaults and limits of Config.
const (
	DefaultShort          = 128 // bytes, the paper's
	maxShort              = provider.CopyMax
	defaultMaxConnections = 512
	defaultMaxSends       = 1024
	NoDaemon              = "none" // for Config.Daemon
)

// Config describes a process to open. The zero Config opens process 0 on the only usable
// interface.
type Config struct {
	// Interface is the network interface, by name or MAC address; see vipl.Config.
	Interface string
	// NIC is used instead of opening Interface. The caller keeps ownership.
	NIC *vipl.NIC
	// Card is used instead of a NIC: an emulated card that runs VMMC's control program (package
	// vmmc/lanai). The caller keeps ownership. Processes find each other through the card, without
	// a daemon, and the cards authenticate users.
	Card *lanai.Card
	// Member is the process's membership in a job. The process then uses the member's NIC. The
	// member's rank replaces Process, and the job's name replaces Job. The caller keeps ownership.
	Member *job.Member
	// Process is the number by which others name the process (SBL's squid), unique on its
	// node; in a job of ranks, in the job. Two processes that import from each other need
	// different numbers. Without a daemon Open does not detect a number that is in use.
	Process uint32
	// Job is the name of a group of processes: those with the same Job find each other.
	Job string
	// Short is the length, at most 256 bytes, of the longest message that is copied into
	// the request; 0 means DefaultShort, negative means that no message is copied.
	Short int
	// MaxConnections is the maximum number of connections with other processes; 0 means 512. Processes of
	// one station that connect to this process get at most half of the connections that other stations
	// leave, which is 256 if there are no other stations. On a card, a connection that this process has
	// ended counts until the other process has answered. MaxSends is the maximum number of writes in
	// flight on each connection; 0 means 1024.
	MaxConnections, MaxSends int
	// PeerTimeout is how long a process may be silent before it counts as dead; 0 means
	// vipl.DefaultPeerTimeout. Over a NIC, a process on this host counts as dead only
	// when it has ended.
	PeerTimeout time.Duration
	// Daemon is the socket of the node's daemon (package vmmc/daemon). Empty means the
	// default socket if a daemon listens there, and otherwise no daemon: the process answers
	// for its own name, and no user is authenticated. NoDaemon disables the use of a
	// daemon. Open fails if the named daemon does not run.
	Daemon string
	// Logger receives rare, human-readable events; nil means slog.Default(). See
	// vipl.Config.Logger about its handler, which may block.
	Logger *slog.Logger
}

// Process is one process's exports, imports and sends. It may be shared between
// goroutines.
type Process struct {
	cfg     Config
	logs    *logqueue.Queue // before cfg.Logger
	nic     *vipl.NIC       // nil with a card
	own     bool            // nic is closed with the process
	dir     directory.Directory
	virtual bool
	life    context.Context // ends with Close
	end     context.CancelFunc

	mu        sync.Mutex
	owed      atomic.Bool // Turn is to be called
	via       provider.Provider
	closed    bool // Close was called: nothing new is taken, and no handler runs
	ended     bool // the provider is closed, too
	exports   map[uint32]*Export
	words     map[string]*Export
	asked     []*provider.Request // requests that wait for an export
	withdrawn int                 // withdrawn ones of these, at most
	proofs    proofs
	self      provider.Identity
	proxies   proxySpace
	notes     noteQueue[note]
	handled   uint64
	waiters   int // goroutines that run handlers when they are woken
	notifier  bool
	stats     Stats

	// Of sends, for reuse.
	scratch provider.Write
	one     [1][]byte
	spare   *Send
	rooms   []*roomWait // free ones, for reuse
}

type note struct {
	export *Export
	grant  *provider.Grant
}

// Open opens a process. The caller must close it. A nil cfg means the defaults.
//
// ctx bounds the call alone, not the life of the process. Open may wait for the node's daemon,
// and for the same reasons as vipl.Open. If ctx ends before or during the call, the error wraps
// the context's error.
func Open(ctx context.Context, cfg *Config) (*Process, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("vmmc: open: %w", err)
	}
	if cfg == nil {
		cfg = &Config{}
	}
	c := *cfg
	logs := logqueue.New(c.Logger)
	c.Logger = logs.Logger()
	if err := c.complete(); err != nil {
		return nil, err
	}
	p := &Process{cfg: c, logs: logs, nic: c.NIC, exports: map[uint32]*Export{}, words: map[string]*Export{}}
	p.life, p.end = context.WithCancel(context.Background())
	if p.nic == nil && c.Card == nil {
		var err error
		if p.nic, err = vipl.Open(ctx, &vipl.Config{Interface: c.Interface, Logger: c.Logger}); err != nil {
			return nil, err
		}
		p.own = true
	}
	err := p.start(ctx)
	if err != nil {
		p.end()
		if p.own {
			p.nic.Close()
		}
		return nil, err
	}
	return p, nil
}

// start opens the provider and the directory, and enters the process in the directory.
func (p *Process) start(ctx context.Context) error {
	v, err := p.openProvider()
	if err != nil {
		return err
	}
	p.proxies = newProxySpace(p.self.Incarnation)
	if p.dir, err = p.openDirectory(ctx); err != nil {
		v.Close()
		return err
	}
	p.dir.OnDeath(func(addr ethertype.Addr, incarnation uint64) {
		p.mu.Lock()
		defer p.unlock()
		p.via.Dead(addr, incarnation)
	})
	if err := p.dir.Enter(p.self); err != nil {
		p.dir.Close()
		v.Close()
		return fmt.Errorf("vmmc: open process %d: %w", p.cfg.Process, typed(err))
	}
	return nil
}

// openDirectory connects to the node's daemon, or returns the substitute for it.
func (p *Process) openDirectory(ctx context.Context) (directory.Directory, error) {
	if p.cfg.Card != nil {
		return directory.OnCard(p.cfg.Card, p.cfg.Job), nil
	}
	socket := p.cfg.Daemon
	if socket == "" {
		socket = directory.Socket(p.nic.Addr().MAC)
	}
	if p.virtual || socket == NoDaemon {
		return directory.NewSegment(p.nic, p.cfg.Job), nil
	}
	c, err := directory.Dial(ctx, socket, p.cfg.Job, p.cfg.Logger)
	switch {
	case err == nil:
		return c, nil
	case p.cfg.Daemon == "" && errors.Is(err, directory.ErrNone):
		return directory.NewSegment(p.nic, p.cfg.Job), nil
	}
	return nil, typed(err)
}

func (p *Process) openProvider() (provider.Provider, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := &p.cfg
	var v provider.Provider
	var err error
	if c.Card != nil {
		v, err = provider.OnCard(c.Card, provider.ProcessConfig{Process: c.Process, PeerTimeout: c.PeerTimeout,
			Connections: c.MaxConnections, Sends: c.MaxSends, Kick: p.kick}, (*up)(p))
	} else {
		v, err = via.Open(via.Config{NIC: p.nic, Process: c.Process, PeerTimeout: c.PeerTimeout,
			Connections: c.MaxConnections, Sends: c.MaxSends, Kick: p.kick}, (*up)(p))
	}
	if err != nil {
		return nil, typed(err)
	}
	p.via, p.self, p.virtual = v, v.Self(), v.Virtual()
	return v, nil
}

// complete fills in the defaults and returns an error for invalid fields.
func (c *Config) complete() error {
	if c.Member != nil {
		id := c.Member.Identity()
		c.NIC, c.Process, c.Job = c.Member.NIC(), uint32(id.Rank), id.Job
	}
	set := func(p *int, value int) {
		if *p == 0 {
			*p = value
		}
	}
	set(&c.Short, DefaultShort)
	set(&c.MaxConnections, defaultMaxConnections)
	set(&c.MaxSends, defaultMaxSends)
	switch {
	case c.Card != nil && (c.NIC != nil || c.Member != nil || c.Daemon != "" && c.Daemon != NoDaemon):
		return fmt.Errorf("%w: Card excludes NIC, Member and Daemon (set only one of them)", ErrArgument)
	case c.Short > maxShort:
		return fmt.Errorf("%w: Short %d is over %d", ErrArgument, c.Short, maxShort)
	case c.MaxConnections < 1 || c.MaxSends < 1 || c.MaxSends > vipl.MaxQueueDepth:
		return fmt.Errorf("%w: MaxConnections %d or MaxSends %d is not in 1..%d", ErrArgument, c.MaxConnections, c.MaxSends, vipl.MaxQueueDepth)
	case c.PeerTimeout < 0:
		return fmt.Errorf("%w: PeerTimeout %v is negative", ErrArgument, c.PeerTimeout)
	}
	return nil
}

// Close ends the process: sends of its importers fail, its imports end, and waits return
// ErrClosed. It waits at most a second for posted sends to arrive, with their notifications.
// New sends fail from the call on, and no handler starts. Close does not wait for a running
// handler. It may be called in any state, from a handler, and more than once: only the first
// call waits.
func (p *Process) Close() error {
	p.mu.Lock()
	if p.closed {
		p.unlock()
		return nil
	}
	p.closed = true
	p.drain()
	p.ended = true
	p.via.Close()
	p.via.Ring()
	p.unlock()
	p.end()
	p.dir.Close()
	var err error
	if p.own {
		err = p.nic.Close()
	}
	p.logs.Flush(logFlush)
	return err
}

// logFlush limits how long Close waits for the handler to write the last lines of the log.
const logFlush = 100 * time.Millisecond

// drainTime limits how long Close waits for posted sends to arrive.
const drainTime = time.Second

// drain waits until posted sends have arrived. It returns the room of notifications that no handler
// will handle, because their senders may be closing too. The caller holds the lock, which drain
// releases while it waits.
func (p *Process) drain() {
	p.notes.drop(func(n note) bool {
		p.via.Handled(n.grant)
		return true
	})
	ctx, cancel := p.via.WithTimeout(context.Background(), drainTime)
	defer cancel()
	for err := error(nil); err == nil; {
		p.turn()
		if !p.via.Busy() {
			return
		}
		seen := p.via.Seen()
		p.mu.Unlock()
		err = p.via.Wait(ctx, 0, seen)
		p.mu.Lock()
	}
}

// Self returns the name under which other processes know this one.
func (p *Process) Self() Peer { return Peer{p.self.Addr.MAC, p.cfg.Process} }

// NIC returns the NIC that the process uses, or nil with a card.
func (p *Process) NIC() *vipl.NIC { return p.nic }

// Hosts returns the nodes of the job by rank (SBL_Hosts). Without a Member it returns only this
// process's own node.
func (p *Process) Hosts() []ethertype.MAC {
	m := p.cfg.Member
	if m == nil {
		return []ethertype.MAC{p.self.Addr.MAC}
	}
	id := m.Identity()
	hosts := make([]ethertype.MAC, id.Size)
	for rank := range hosts {
		hosts[rank] = p.self.Addr.MAC
		if rank != id.Rank {
			hosts[rank] = m.Addr(rank).MAC
		}
	}
	return hosts
}

// The lock
//
// The provider announces work by kick, from any goroutine, including one that holds the lock and is
// in a call of the NIC. So kick does not wait for the lock. The goroutine that holds the lock does
// the work when it releases it.

func (p *Process) kick() {
	p.owed.Store(true)
	p.relay()
}

func (p *Process) relay() {
	for p.owed.Load() && p.mu.TryLock() {
		p.turn()
		p.release()
	}
}

// release unlocks. If handlers are due and no goroutine is there to run them, it starts one.
func (p *Process) release() {
	start := !p.notifier && !p.virtual && !p.closed && p.waiters == 0 && p.notes.ready()
	if start {
		p.notifier = true
	}
	p.mu.Unlock()
	if start {
		go p.notify()
	}
}

// turn does the announced work. The caller must hold the lock.
func (p *Process) turn() {
	if p.owed.Swap(false); !p.ended && p.via != nil {
		p.via.Turn()
	}
}

// unlock releases the lock.
func (p *Process) unlock() {
	if p.owed.Load() {
		p.turn()
	}
	p.release()
	p.relay()
}

// await blocks until done returns true. The caller must hold the lock, and done is called with the
// lock held. Handlers run meanwhile, unless the caller is a handler.
func (p *Process) await(ctx context.Context, done func() bool) error {
	for {
		p.turn()
		for !done() && !p.closed && p.notes.ready() {
			p.runHandler()
			p.turn()
		}
		switch {
		case done():
			p.runDue()
			return nil
		case p.ended:
			return ErrClosed
		}
		seen := p.via.Seen()
		p.waiters++
		p.mu.Unlock()
		err := p.via.Wait(ctx, 0, seen)
		p.mu.Lock()
		p.waiters--
		if err != nil {
			if done() {
				return nil
			}
			if p.ended {
				return ErrClosed
			}
			return typed(err)
		}
	}
}

// runDue runs the handlers that are due when a wait ends, and not those that become due meanwhile. A
// peer that answers a message acknowledges it by the same frame. The wait for the acknowledgement then
// ends together with the arrival of the answer's notification. If a goroutine of the package ran the
// handler instead, that would cost two wake-ups of threads: one to run the handler, and one to notify
// this goroutine, which waits for the handler next.
func (p *Process) runDue() {
	for due := p.notes.len(); due > 0 && !p.closed && p.notes.ready(); due-- {
		p.runHandler()
	}
}

// runHandler runs the handler of the next notification. The caller holds the lock, before and
// after. The handler runs without it.
func (p *Process) runHandler() {
	n := p.notes.begin()
	p.mu.Unlock()
	p.relay()
	defer p.handlerEnded(n)
	n.export.handler(Notification{Export: n.export, From: peerOf(n.grant.To)})
}

// handlerEnded is deferred, so that neither a panic nor runtime.Goexit in a handler stops the
// notifications.
func (p *Process) handlerEnded(n note) {
	cause := recover()
	if cause != nil {
		p.cfg.Logger.Error("vmmc: a handler has panicked", "export", n.export.id, "cause", cause, "stack", string(debug.Stack()))
	}
	p.mu.Lock()
	if cause != nil {
		p.stats.Panics++
	}
	p.notes.end()
	p.handled++
	p.stats.Handled++
	if !p.ended {
		p.via.Handled(n.grant)
	}
	p.via.Ring()
}

// notify runs handlers on its own goroutine while no other goroutine waits.
func (p *Process) notify() {
	p.mu.Lock()
	defer func() {
		p.notifier = false
		p.unlock()
	}()
	for !p.closed && p.notes.ready() {
		p.runHandler()
	}
}

func peerOf(id provider.Identity) Peer { return Peer{id.Addr.MAC, id.Process} }
