package stream

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"sync"
	"time"

	"github.com/bobnet-go/bobnet/internal/counters"
	"github.com/bobnet-go/bobnet/internal/seam"
	"github.com/bobnet-go/bobnet/vipl"
)

// Host is a NIC and the streams and listeners that share it. It may be shared between
// goroutines.
type Host struct {
	nic     *vipl.NIC
	own     bool // it opened nic
	virtual bool // nic's clock is not real time
	cfg     Config
	yield   func() // runtime.Gosched, but in tests

	mu        sync.Mutex
	closed    bool
	conns     map[*Conn]struct{}
	listeners map[*Listener]struct{}
	left      Stats // sum over streams that have been closed
	counts    Counts
	empty     sync.Cond // a stream or a listener has been closed
}

// Counts count what has become of connections.
type Counts struct {
	Dialed   uint64 `metric:"bobnet_stream_dialed_total" help:"Streams that were made by Dial."`
	Accepted uint64 `metric:"bobnet_stream_accepted_total" help:"Streams that were made for others."`
	Failed   uint64 `metric:"bobnet_stream_failed_total" help:"Attempts to make a stream that failed, either way."`
	Refused  uint64 `metric:"bobnet_stream_refused_total" help:"Messages and requests that broke the rules; each has ended its connection."`
}

// spin is how long reads and writes over a NIC that a Host opens poll before they block, at
// the most: a few times as long as an echo takes, and about as long as a thread that sleeps takes
// to run. Calls over HTTP and gRPC take longer, most of it the programs' own work, which
// polling keeps from the processors. Where waits are longer, or others want the processor, the
// NIC finds out, and polls less.
const spin = 35 * time.Microsecond

// Open returns a Host for the NIC that cfg names. Close it in the end. A nil cfg means defaults.
//
// ctx bounds the call alone, not the life of the Host. When it ends while Open waits, as
// vipl.Open may, or has ended before, the error wraps the context's.
func Open(ctx context.Context, cfg *Config) (*Host, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("stream: open: %w", err)
	}
	full, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	h := &Host{cfg: full, nic: full.NIC, yield: runtime.Gosched, conns: map[*Conn]struct{}{}, listeners: map[*Listener]struct{}{}}
	if h.nic == nil {
		if h.nic, err = vipl.Open(ctx, &vipl.Config{Interface: full.Interface, Spin: spin, Logger: full.Logger}); err != nil {
			return nil, fmt.Errorf("stream: %w", err)
		}
		h.own = true
	}
	h.empty.L = &h.mu
	h.virtual = seam.Link(h.nic).Info().Virtual
	return h, nil
}

// retire closes h when the program has closed the last of its streams and listeners. They end
// with the error of the NIC until then, and what has arrived can be read.
func (h *Host) retire() {
	h.mu.Lock()
	for len(h.conns)+len(h.listeners) > 0 {
		h.empty.Wait()
	}
	h.mu.Unlock()
	h.Close()
}

// NIC returns the NIC of h.
func (h *Host) NIC() *vipl.NIC { return h.nic }

// Close closes all listeners and streams of h, waits for those that linger, and closes the
// NIC if h has opened it. Closing twice does nothing.
func (h *Host) Close() error {
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return nil
	}
	h.closed = true
	var conns []*Conn
	for c := range h.conns {
		conns = append(conns, c)
	}
	var listeners []*Listener
	for l := range h.listeners {
		listeners = append(listeners, l)
	}
	h.mu.Unlock()
	for _, l := range listeners {
		l.Close()
	}
	for _, c := range conns {
		c.Close()
	}
	h.mu.Lock()
	for len(h.conns) > 0 && !h.virtual {
		h.empty.Wait()
	}
	h.mu.Unlock()
	if h.own {
		return h.nic.Close()
	}
	return nil
}

// add makes c one of the streams of h.
func (h *Host) add(c *Conn, count *uint64) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return net.ErrClosed
	}
	*count++
	h.conns[c] = struct{}{}
	return nil
}

// forget is called when a stream has been closed.
func (h *Host) forget(c *Conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, ok := h.conns[c]; ok {
		delete(h.conns, c)
		counters.Add(&h.left, &c.stats)
		h.empty.Broadcast()
	}
}

// refuse counts what breaks the rules.
func (h *Host) refuse() { h.count(&h.counts.Refused) }

func (h *Host) count(n *uint64) {
	h.mu.Lock()
	*n++
	h.mu.Unlock()
}

// standard is the host of Dial and Listen without one. It stays open until its NIC is of no
// use any more.
var standard struct {
	sync.Mutex
	host *Host
}

// orStandard returns h, or if that is nil the host that all share who have none.
func (h *Host) orStandard(ctx context.Context) (*Host, error) {
	if h != nil {
		return h, nil
	}
	standard.Lock()
	defer standard.Unlock()
	if standard.host != nil && standard.host.nic.Cause() != nil {
		go standard.host.retire()
		standard.host = nil
	}
	if standard.host == nil {
		host, err := Open(ctx, nil)
		if err != nil {
			return nil, err
		}
		standard.host = host
	}
	return standard.host, nil
}
