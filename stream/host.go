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

// Counts counts connections by outcome.
type Counts struct {
	Dialed   uint64 `metric:"bobnet_stream_dialed_total" help:"Streams created by Dial."`
	Accepted uint64 `metric:"bobnet_stream_accepted_total" help:"Streams accepted from others."`
	Failed   uint64 `metric:"bobnet_stream_failed_total" help:"Failed attempts to create a stream, by either side."`
	Refused  uint64 `metric:"bobnet_stream_refused_total" help:"Messages and requests that violated the protocol; each ended its connection."`
}

// spin is the longest time that reads and writes poll before they block, over a NIC that a Host
// opens. It is a few round trips, and about the wake-up time of a sleeping thread. Calls over HTTP
// and gRPC take longer, mostly in the programs themselves, and polling would take processor time
// from them. If waits are longer, or other threads need the processor, the NIC detects it and polls
// less.
const spin = 35 * time.Microsecond

// Open returns a Host for the NIC that cfg selects. The caller must close it. A nil cfg means the
// defaults.
//
// ctx bounds the call alone, not the life of the Host. Open may wait, as vipl.Open does. If ctx
// ends before or meanwhile, the error wraps the context's error.
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

// retire closes h after the program has closed all its streams and listeners. Until then they
// return the NIC's error, and received data can still be read.
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

// Close closes all listeners and streams of h, waits for lingering streams, and closes the NIC if h
// opened it. Closing twice does nothing.
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

// addConn registers c as a stream of h.
func (h *Host) addConn(c *Conn, count *uint64) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return net.ErrClosed
	}
	*count++
	h.conns[c] = struct{}{}
	return nil
}

// forget removes a closed stream.
func (h *Host) forget(c *Conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, ok := h.conns[c]; ok {
		delete(h.conns, c)
		counters.Add(&h.left, &c.stats)
		h.empty.Broadcast()
	}
}

// refuse counts a violation of the protocol.
func (h *Host) refuse() { h.count(&h.counts.Refused) }

func (h *Host) count(n *uint64) {
	h.mu.Lock()
	*n++
	h.mu.Unlock()
}

// standard is the default Host of Dial and Listen. It stays open until its NIC is closed or its
// link has failed.
var standard struct {
	sync.Mutex
	host *Host
}

// orStandard returns h, or the default Host if h is nil.
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
