// Package lab builds a small Ethernet segment from network namespaces and runs jobs on it. Each
// rank, or each group of Config.PerHost ranks, has a namespace with an interface bob0.
//
// A lab needs no daemon and leaves nothing behind, however it ends. Namespaces are anonymous: only
// this process's descriptors and the ranks hold them. Ranks run in a process namespace whose first
// process, the keeper, reads from a pipe that only this process can write to. When this process dies,
// even by SIGKILL, the keeper reads the end of the file and exits. The kernel then kills all processes
// of the namespace. With the last process and descriptor, the namespaces and their interfaces
// disappear.
//
//	if err := lab.ReexecIfNeeded(); err != nil { ... } // first thing in main
//	l, err := lab.New(ctx, lab.Config{N: 4})
//	defer l.Close()
//	err = l.Run(ctx, []string{"./heat"}, lab.RunOptions{Prefix: true})
//
// A rank sees its own interfaces and its own /sys. Its /proc is that of the host, with the host's
// process numbers.
package lab

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/myrinet/topology"
	"github.com/vishvananda/netns"
)

// Interface is the name of the segment's interface in every rank's namespace.
const Interface = "bob0"

// MaxRanks is the maximum number of ranks of a lab: the number of ports of a Linux bridge.
const MaxRanks = 1023

// Topology is the way in which the ranks are joined.
type Topology int

// The topologies. The zero value joins two ranks by a pair and others by a
// bridge.
const (
	Auto   Topology = iota // a pair for two ranks, unless their links are cut
	Pair                   // one veth pair; two ranks only
	Bridge                 // a bridge in a separate namespace, with one veth pair per rank
	Cables                 // the cables of Config.Fabric
)

// ParseTopology parses "auto", "pair" or "bridge".
func ParseTopology(s string) (Topology, error) {
	for _, t := range []Topology{Auto, Pair, Bridge} {
		if s == t.String() {
			return t, nil
		}
	}
	return Auto, fmt.Errorf("lab: topology %q: want auto, pair or bridge", s)
}

// String returns the name that ParseTopology parses.
func (t Topology) String() string {
	switch t {
	case Pair:
		return "pair"
	case Bridge:
		return "bridge"
	case Cables:
		return "cables"
	}
	return "auto"
}

// Config describes a lab.
type Config struct {
	N        int            // ranks, 1..MaxRanks
	PerHost  int            // ranks that share a namespace and its bob0, as the processes of one host do: 0 and PerHost-1, and so on; 0 = 1
	MTU      int            // of bob0, in bytes; 0 = ethertype.MaxMTU, the largest that veth takes, but with Fabric 9000
	Topology Topology       // how the ranks are joined
	Cuts     []Cut          // link failures during every Run; Auto then means a bridge
	Fabric   *topology.File // hosts, which are the ranks, switches, and cables between them; N and Topology are left zero
	Bind     bool           // bind each rank to its own processor; there must be as many processors as ranks
	Segment  bool           // the kernel of a host cuts TCP segments and long frames on egress, as for a card without offloads
	Narrow   bool           // links that Cut can give an MTUDrop; so with one among Cuts
	Log      *slog.Logger   // nil = slog.Default()
}

// Validate returns an error if c is invalid. New calls it, too.
func (c Config) Validate() error {
	if err := c.checkFabric(); err != nil {
		return err
	}
	c = c.withDefaults()
	switch {
	case c.N < 1 || c.N > MaxRanks:
		return fmt.Errorf("lab: %d ranks: want 1 to %d", c.N, MaxRanks)
	case c.MTU < ethertype.MinMTU || c.MTU > ethertype.MaxMTU:
		return fmt.Errorf("lab: MTU %d: want %d to %d", c.MTU, ethertype.MinMTU, ethertype.MaxMTU)
	case c.PerHost < 1 || c.PerHost > MaxRanks:
		return fmt.Errorf("lab: %d ranks in a namespace: want 1 to %d", c.PerHost, MaxRanks)
	case c.Topology == Pair && c.hosts() != 2:
		return fmt.Errorf("lab: a pair joins 2 namespaces, not %d (use topology bridge)", c.hosts())
	case c.Topology == Pair && len(c.Cuts) > 0:
		return fmt.Errorf("lab: %v %v: the links of a pair cannot be cut (use topology bridge)", c.Cuts[0].Kind, c.Cuts[0])
	}
	for _, cut := range c.Cuts {
		if err := cut.check(c); err != nil {
			return err
		}
	}
	if c.Bind {
		if _, err := Bind(c.N); err != nil {
			return fmt.Errorf("lab: %w", err)
		}
	}
	return nil
}

func (c Config) withDefaults() Config {
	if c.PerHost == 0 {
		c.PerHost = 1
	}
	if c.Fabric != nil {
		c.Topology, c.N = Cables, len(c.Fabric.Hosts)
		if c.MTU == 0 {
			c.MTU = fabricMTU
		}
	}
	if c.MTU == 0 {
		c.MTU = ethertype.MaxMTU
	}
	if c.Topology == Auto {
		c.Topology = Bridge
		if c.hosts() == 2 && len(c.Cuts) == 0 {
			c.Topology = Pair
		}
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	c.Narrow = c.Narrow || slices.ContainsFunc(c.Cuts, func(cut Cut) bool { return cut.Kind == MTUDrop })
	return c
}

// hosts returns the number of namespaces. c must have its defaults.
func (c Config) hosts() int { return (c.N + c.PerHost - 1) / c.PerHost }

// host returns the index of a rank's namespace.
func (c Config) host(rank int) int { return rank / c.PerHost }

// Errors that callers tell apart.
var (
	// ErrForbidden reports a missing permission. The error that wraps it tells how to get it.
	ErrForbidden = errors.New("lab: the system does not allow network namespaces")
	// ErrClosed is the error of calls after Close, or after the keeper was killed.
	ErrClosed = errors.New("lab: closed")
)

// Lab is a set of namespaces joined into one Ethernet segment. It may be
// shared between goroutines.
type Lab struct {
	cfg    Config
	job    string
	bound  []int // the processor of each rank, with Config.Bind
	keeper *keeper
	hub    netns.NsHandle   // the bridge's namespace; netns.None() without one
	hosts  []netns.NsHandle // of the ranks, PerHost of them each
	boxes  []netns.NsHandle // of the fabric's switches

	mu     sync.RWMutex // Close against everything that uses the handles
	closed bool
	procs  sync.WaitGroup

	wiring sync.Mutex // guards wires, and who changes them
	wires  wires

	liveMu sync.Mutex
	live   map[*Proc]bool // that have been started and not reaped
}

// New creates a lab. ctx applies to the creation only; the lab exists until Close. The error wraps
// ErrForbidden if a permission is missing.
func New(ctx context.Context, cfg Config) (*Lab, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	if !privileged() {
		return nil, forbidden("this process lacks CAP_SYS_ADMIN or CAP_NET_ADMIN")
	}
	var bound []int
	if cfg.Bind {
		var err error
		if bound, err = Bind(cfg.N); err != nil {
			return nil, fmt.Errorf("lab: %w", err)
		}
	}
	l := &Lab{cfg: cfg, bound: bound, job: newJob(), hub: netns.None(), wires: newWires(cfg), live: map[*Proc]bool{}}
	var err error
	if l.keeper, err = startKeeper(); err == nil {
		err = l.build(ctx)
	}
	if err != nil {
		l.Close()
		return nil, explain("create lab", err)
	}
	cfg.Log.Info("lab created", "ranks", cfg.N, "mtu", cfg.MTU, "topology", cfg.Topology, "namespaces", cfg.hosts())
	return l, nil
}

// newJob returns a name that is unique on the segment.
func newJob() string { return "lab-" + rand.Text()[:10] }

// Size returns the number of ranks.
func (l *Lab) Size() int { return l.cfg.N }

// MTU returns the MTU of every bob0, in bytes.
func (l *Lab) MTU() int { return l.cfg.MTU }

// Topology returns how the ranks are joined: Pair, Bridge or Cables.
func (l *Lab) Topology() Topology { return l.cfg.Topology }

// Host returns the number of the namespace that rank is in, from 0.
func (l *Lab) Host(rank int) int { return l.cfg.host(rank) }

// MAC returns the hardware address of rank's bob0.
func (l *Lab) MAC(rank int) ethertype.MAC { return hostMAC(l.Host(rank)) }

func hostMAC(host int) ethertype.MAC {
	n := host + 1
	return ethertype.MAC{0x02, 'b', 'o', 'b', byte(n >> 8), byte(n)}
}

// Addr returns the IPv4 address of rank's bob0, in 10.88.0.0/16.
func (l *Lab) Addr(rank int) netip.Addr { return hostAddr(l.Host(rank)) }

func hostAddr(host int) netip.Addr {
	n := host + 1
	return netip.AddrFrom4([4]byte{10, 88, byte(n >> 8), byte(n)})
}

// Exec calls fn on a new thread in rank's network namespace, and returns fn's error. Sockets that fn
// opens belong to that namespace, and keep it alive until they are closed. Goroutines that fn starts
// run outside; package net starts such goroutines to look up names.
func (l *Lab) Exec(rank int, fn func() error) error {
	ns, err := l.handle(rank)
	if err != nil {
		return err
	}
	defer l.mu.RUnlock()
	return inside(ns, fn)
}

// handle returns rank's namespace. Without an error the caller holds l.mu for
// reading and unlocks it when done.
func (l *Lab) handle(rank int) (netns.NsHandle, error) {
	if rank < 0 || rank >= l.cfg.N {
		return netns.None(), fmt.Errorf("lab: rank %d: want 0 to %d", rank, l.cfg.N-1)
	}
	l.mu.RLock()
	if l.closed {
		l.mu.RUnlock()
		return netns.None(), ErrClosed
	}
	return l.hosts[l.Host(rank)], nil
}

// Close kills all processes of the lab, waits for them and closes the namespaces, which the kernel
// then removes. Further calls have no effect.
func (l *Lab) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true
	if l.keeper != nil {
		l.keeper.release()
		l.procs.Wait()
		l.keeper.wait()
	}
	var errs []error
	for _, ns := range append(append(l.hosts, l.boxes...), l.hub) {
		if ns.IsOpen() {
			errs = append(errs, ns.Close())
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("lab: closing: %w", err)
	}
	return nil
}

// Dial connects to a TCP port of rank's loopback address from within its namespace.
func (l *Lab) Dial(ctx context.Context, rank int, port uint16) (net.Conn, error) {
	var conn net.Conn
	err := l.Exec(rank, func() (err error) {
		var dialer net.Dialer
		conn, err = dialer.DialContext(ctx, "tcp4", netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port).String())
		return err
	})
	return conn, err
}
