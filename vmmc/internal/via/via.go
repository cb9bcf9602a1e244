// Package via is the provider over virtual interfaces. Each pair of processes has one connection,
// with its own protection tag. An import is a registration of the exporter's buffer with that tag
// and with the right to write. Its handle is never reused, so one DeregisterMem revokes it. A
// process that knows the handle but uses another connection cannot write.
package via

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/seam"
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/bobnet-go/bobnet/vmmc/internal/asking"
	"github.com/bobnet-go/bobnet/vmmc/internal/provider"
)

// Config configures a provider.
type Config struct {
	NIC         *vipl.NIC
	Process     uint32
	PeerTimeout time.Duration
	Connections int    // maximum number
	Sends       int    // maximum writes in progress on a connection
	Kick        func() // see package provider
}

// Provider implements provider.Provider.
type Provider struct {
	asking.Provider
	up       provider.Up
	nic      *vipl.NIC
	cfg      Config
	self     provider.Identity
	cq       *seam.Queue
	entries  int
	listener *vipl.Listener
	conns    map[ethertype.Addr]*conn
	itself   *conn // the accepting end of the connection with itself
	count    provider.Counters
	dials    uint32 // connections that this process has asked for
	closed   bool
}

var _ provider.Provider = (*Provider)(nil)

// Open starts to accept requests. It calls up from the first Turn on.
func Open(cfg Config, up provider.Up) (*Provider, error) {
	p := &Provider{up: up, nic: cfg.NIC, cfg: cfg, conns: map[ethertype.Addr]*conn{}, entries: 64}
	var err error
	if p.cq, err = seam.NewQueue(p.nic, p.entries, 32); err != nil {
		return nil, err
	}
	if p.listener, err = p.nic.Listen(0); err == nil {
		if err = p.listener.Bind(p.cq.CQ); err == nil {
			err = p.cq.Attend(cfg.Kick)
		}
	}
	if err != nil {
		p.Close()
		return nil, err
	}
	addr := p.listener.Addr()
	p.self = provider.Identity{Addr: addr, Process: cfg.Process, Incarnation: p.nic.Query().Incarnation ^ uint64(addr.Port)<<48}
	return p, nil
}

// Self implements provider.Provider.
func (p *Provider) Self() provider.Identity { return p.self }

// Now implements provider.Provider.
func (p *Provider) Now() int64 { return p.nic.Now() }

// Virtual implements provider.Provider.
func (p *Provider) Virtual() bool { return seam.Link(p.nic).Info().Virtual }

// Apart implements provider.Provider.
func (p *Provider) Apart() bool { return false }

// WithTimeout implements provider.Provider.
func (p *Provider) WithTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return p.nic.WithTimeout(ctx, d)
}

// Poll implements provider.Provider.
func (p *Provider) Poll() { p.nic.Poll() }

// Seen implements provider.Provider.
func (p *Provider) Seen() uint32 { return p.cq.Seen() }

// Ring implements provider.Provider.
func (p *Provider) Ring() { p.cq.Wake() }

// Wait implements provider.Provider.
func (p *Provider) Wait(ctx context.Context, d time.Duration, seen uint32) error {
	err := p.cq.WaitSince(ctx, d, seen)
	switch {
	case err == nil, errors.Is(err, vipl.ErrNotDone):
		return nil
	case errors.Is(err, context.Canceled):
		return context.Canceled
	case errors.Is(err, vipl.ErrTimeout):
		return context.DeadlineExceeded
	}
	return fmt.Errorf("%w: %w", provider.ErrClosed, err)
}

// Failed implements provider.Provider.
func (p *Provider) Failed() error {
	if err := p.nic.Cause(); err != nil {
		return fmt.Errorf("%w: %w", provider.ErrClosed, err)
	}
	return nil
}

// Turn implements provider.Provider.
func (p *Provider) Turn() {
	for more := true; more && !p.closed; more = p.cq.Full() {
		done := p.cq.Reap()
		for i := range done {
			p.complete(&done[i])
		}
	}
}

// complete handles one completion.
func (p *Provider) complete(c *seam.Completion) {
	if c.Request != nil {
		p.accept(c.Request)
		return
	}
	k, _ := c.VI.Context.(*conn)
	switch {
	case k == nil || k.vi != c.VI || k.state == dead:
	case c.Err != nil:
		k.fail(k.why())
	default:
		switch x := c.Descriptor.Context.(type) {
		case *receive:
			k.arrived(x)
		case *send:
			k.sent(x)
		}
	}
}

// reserve resizes the completion queue by a number of connections, which may be negative.
func (p *Provider) reserve(by int) error {
	p.entries += by
	return p.cq.Resize(p.entries)
}

// Busy implements provider.Provider.
func (p *Provider) Busy() bool {
	for _, k := range p.all() {
		if (k.state == live || k.state == accepting) && k.flying.Len()+k.notes.Len() > 0 {
			return true
		}
	}
	return false
}

// Close implements provider.Provider.
func (p *Provider) Close() {
	if p.closed {
		return
	}
	p.closed = true
	for _, k := range p.all() {
		k.fail(provider.ErrClosed)
	}
	if p.listener != nil {
		p.listener.Close()
	}
	p.cq.Close()
}

// Dead implements provider.Provider.
func (p *Provider) Dead(addr ethertype.Addr, incarnation uint64) {
	if k := p.conns[addr]; k != nil && (!k.known || k.peer.Incarnation == incarnation) {
		k.fail(provider.ErrPeer)
	}
}

// all returns the connections in the order of their addresses, so that each run of a simulation
// handles them in the same order.
func (p *Provider) all() []*conn {
	all := slices.SortedFunc(maps.Values(p.conns), func(a, b *conn) int { return a.at.Compare(b.at) })
	if p.itself != nil {
		all = append(all, p.itself)
	}
	return all
}

// Peers implements provider.Provider.
func (p *Provider) Peers() (peers []provider.Peer) {
	for _, k := range p.all() {
		s := provider.Peer{Identity: k.peer, State: k.state.String(), Asks: k.Asks.Len(), Regions: len(k.regions), Grants: k.Grants.Len(),
			UnderWay: k.busy, Waiting: len(k.talk) + k.notes.Len(), Credits: k.mayNote}
		peers = append(peers, s)
	}
	return peers
}

// Counters implements provider.Provider.
func (p *Provider) Counters() provider.Counters { return p.count }

// Reaches implements provider.Provider: all memory can be registered.
func (*Provider) Reaches([]byte) error { return nil }

// AllocMem implements provider.Provider.
func (*Provider) AllocMem(n int) ([]byte, error) { return make([]byte, n), nil }

// FreeMem implements provider.Provider: the memory is garbage collected.
func (*Provider) FreeMem([]byte) {}
