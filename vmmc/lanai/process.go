package lanai

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/fifo"
	"github.com/bobnet-go/bobnet/internal/myrinet/hardware"
	"github.com/bobnet-go/bobnet/internal/progress"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/vmmc/internal/asking"
	"github.com/bobnet-go/bobnet/vmmc/internal/provider"
)

// process is a process of a host: provider.Provider. Package vmmc calls it, as that
// package says; what is guarded by the host's lock says so.
type process struct {
	asking.Provider
	h    *Card
	up   provider.Up
	cfg  provider.ProcessConfig
	self provider.Identity

	conns  map[ethertype.Addr]*conn
	parted map[ethertype.Addr]parting
	closed bool
	seen   uint32
	taken  []event // by Turn
	count  provider.Counters
	spare  []*send

	// Guarded by the host's lock.
	port    uint16
	page    *hardware.Page
	queue   queue
	space   space
	next    uint32           // number of the next request
	slots   [slots]*send     // whose request is in it
	backlog fifo.Queue[part] // requests that wait for a slot
	inbox   []event
	gate    progress.Gate
	kicked  bool
}

var _ provider.Provider = (*process)(nil)

// event is what a process is told.
type event struct {
	kind   eventKind
	from   ethertype.Addr
	id     provider.Identity
	body   []byte
	frame  uint32
	line   uint64
	number uint32
	how    ending
}

type eventKind uint8

const (
	eventMessage eventKind = iota // of another process
	eventNote                     // a notification
	eventEnded                    // a request has ended
	eventCut                      // all connections with a node have ended
	eventRefused                  // a node has refused a write
	eventClosed                   // the host has
)

func init() {
	provider.OnCard = func(host any, cfg provider.ProcessConfig, up provider.Up) (provider.Provider, error) {
		p, err := host.(*Card).join(cfg, up)
		if err != nil {
			return nil, err
		}
		return p, nil
	}
}

// join adds a process to the host. Its error wraps hardware.ErrSRAM when the card has no
// room for it. It calls up from the first Turn on.
func (h *Card) join(cfg provider.ProcessConfig, up provider.Up) (*process, error) {
	h.host.Engine.Lock()
	defer h.host.Engine.Unlock()
	switch {
	case h.host.Failed() != nil:
		return nil, h.failure()
	case len(h.procs) >= h.cfg.Processes:
		return nil, fmt.Errorf("lanai: %w for process %d: the card has room for %d (Config.Processes)", hardware.ErrSRAM, cfg.Process, h.cfg.Processes)
	}
	p := &process{h: h, up: up, cfg: cfg, conns: map[ethertype.Addr]*conn{}, parted: map[ethertype.Addr]parting{}, space: newSpace(), next: 1}
	for h.port++; h.port == 0 || h.procs[h.port] != nil; {
		h.port++
	}
	p.port = h.port
	p.self = provider.Identity{Addr: ethertype.Addr{MAC: h.cfg.MAC, Port: p.port}, Process: cfg.Process,
		Incarnation: h.prog.birth ^ uint64(p.port)<<48}
	var err error
	if p.page, err = h.host.Card.OpenPage(fmt.Sprint("process ", cfg.Process)); err != nil {
		return nil, err
	}
	if h.prog.ready {
		err = p.attach()
	}
	if err != nil {
		p.page.Close()
		return nil, err
	}
	h.procs[p.port] = p
	return p, nil
}

// attach gives the process its tables on the card. The lock is held.
func (p *process) attach() error {
	q := &p.queue
	*q = queue{proc: p, page: p.page, next: p.next, words: make([]byte, slots*4)}
	q.table.used = make([]bool, outgoingPages)
	var err error
	if q.blocks[0], err = p.h.host.Card.SRAM().Alloc("outgoing page table", outgoingSize); err != nil {
		return err
	}
	if q.blocks[1], err = p.h.host.Card.SRAM().Alloc("TLB", tlbSize); err != nil {
		p.h.host.Card.SRAM().Free(q.blocks[0])
		return err
	}
	q.table.mem, q.tlb.mem, q.open = q.blocks[0].Data, q.blocks[1].Data, true
	p.h.prog.procs = append(p.h.prog.procs, q)
	return nil
}

// detach takes the process off the card. The lock is held.
func (p *process) detach() {
	h := p.h
	delete(h.procs, p.port)
	if p.queue.open {
		p.queue.open = false
		h.prog.drop(&p.queue)
		for _, b := range p.queue.blocks {
			h.host.Card.SRAM().Free(b)
		}
	}
	p.page.Close()
	p.space = newSpace()
	p.backlog.Clear()
}

// tell has the process's next Turn see to something. The lock is held.
func (p *process) tell(e event) {
	p.inbox = append(p.inbox, e)
	p.gate.Open(&p.h.host.Engine)
	if !p.kicked {
		p.kicked = true
		p.h.kicks.Owe(p)
	}
}

// kick announces that Turn has work. No lock is held.
func (p *process) kick() {
	p.h.host.Engine.Lock()
	p.kicked = false
	p.h.host.Engine.Unlock()
	p.cfg.Kick()
}

// finished is told by the card how a request has ended. The lock is held.
func (p *process) finished(number uint32, how ending) {
	p.tell(event{kind: eventEnded, number: number, how: how})
}

// pages is the driver's part of a miss: it pins the page that is missing and those behind
// it that are the process's, and returns how many these are.
func (p *process) pages() int {
	last, ok := p.space.extent(p.queue.page0)
	if !ok {
		return 0
	}
	return int(min(last-p.queue.page0+1, refillPages))
}

// Self implements provider.Provider.
func (p *process) Self() provider.Identity { return p.self }

// Now implements provider.Provider.
func (p *process) Now() int64 { return p.h.host.Now() }

// Virtual implements provider.Provider.
func (p *process) Virtual() bool { return p.h.Virtual() }

// WithTimeout implements provider.Provider.
func (p *process) WithTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return p.h.host.Engine.WithTimeout(ctx, d)
}

// Frame implements provider.Provider: chunks come in order, so a message of any length
// becomes visible as one write.
func (p *process) Frame(*provider.Region) int { return 1 << 30 }

// Poll implements provider.Provider.
func (p *process) Poll() {
	p.h.host.Engine.Lock()
	p.h.host.Engine.Poll()
	p.h.host.Engine.Unlock()
	p.h.clock.pay()
}

// Seen implements provider.Provider.
func (p *process) Seen() uint32 { return p.seen }

// Ring implements provider.Provider.
func (p *process) Ring() {
	p.h.host.Engine.Lock()
	p.gate.Open(&p.h.host.Engine)
	p.h.host.Engine.Unlock()
}

// Wait implements provider.Provider.
func (p *process) Wait(ctx context.Context, d time.Duration, seen uint32) error {
	e := &p.h.host.Engine
	e.Lock()
	defer e.Unlock()
	w := e.Begin(ctx)
	defer e.End(&w)
	limited := d > 0 && e.Limit(&w, d)
	for p.gate.Opened() == seen {
		err := e.WaitSince(&w, &p.gate, seen)
		switch {
		case err == nil:
		case limited && errors.Is(err, progress.ErrTimeout) && e.Ended(ctx) == nil:
			return nil
		case errors.Is(err, context.Canceled):
			return context.Canceled
		case errors.Is(err, progress.ErrTimeout):
			return context.DeadlineExceeded
		default:
			return p.h.failure()
		}
	}
	return nil
}

// Failed implements provider.Provider.
func (p *process) Failed() error {
	p.h.host.Engine.Lock()
	defer p.h.host.Engine.Unlock()
	return p.h.failure()
}

// failure returns why the card is of no use any more, or nil. The lock is held.
func (h *Card) failure() error {
	switch err := h.host.Failed(); err {
	case nil:
		return nil
	case transport.ErrClosed:
		return provider.ErrClosed
	default:
		return fmt.Errorf("%w: %w", provider.ErrClosed, err)
	}
}

// Turn implements provider.Provider.
func (p *process) Turn() {
	for {
		p.h.host.Engine.Lock()
		p.taken, p.inbox = p.inbox, p.taken[:0]
		p.seen = p.gate.Opened() // also when the host has closed the process, or waits would not wait
		p.h.host.Engine.Unlock()
		if len(p.taken) == 0 {
			return
		}
		for i := range p.taken {
			if !p.closed {
				p.handle(&p.taken[i])
			}
			p.taken[i] = event{}
		}
	}
}

// handle sees to one event.
func (p *process) handle(e *event) {
	switch e.kind {
	case eventMessage:
		p.receive(e)
	case eventNote:
		p.notified(e.frame)
	case eventEnded:
		p.requestEnded(e.number, e.how)
	case eventCut:
		for _, k := range p.inOrder() {
			if k.at.MAC == e.from.MAC && k.line < e.line {
				k.fail(provider.ErrPeer, byeNone)
			}
		}
		p.parts(func(at ethertype.Addr, x parting) bool { return at.MAC == e.from.MAC && x.line < e.line })
	case eventRefused:
		for _, k := range p.inOrder() {
			if k.at.MAC == e.from.MAC && k.names(e.frame) {
				k.refused()
			}
		}
	case eventClosed:
		p.Close()
	}
}

// inOrder returns the connections by their addresses.
func (p *process) inOrder() []*conn {
	return slices.SortedFunc(maps.Values(p.conns), func(a, b *conn) int { return a.at.Compare(b.at) })
}

// Busy implements provider.Provider. Where nothing is sent again, what is in SRAM will leave.
func (p *process) Busy() bool {
	for _, k := range p.conns {
		if k.busy+k.notes.waiting.Len() > 0 {
			return true
		}
	}
	return false
}

// Close implements provider.Provider.
func (p *process) Close() {
	if p.closed {
		return
	}
	p.closed = true
	for _, k := range p.inOrder() {
		k.fail(provider.ErrClosed, byeClosed)
	}
	p.parts(func(ethertype.Addr, parting) bool { return true })
	p.h.host.Engine.Lock()
	ended := p.under()
	p.h.host.Engine.Unlock()
	for _, s := range ended {
		p.ends(s, provider.ErrClosed)
	}
	p.h.host.Engine.Lock()
	p.detach()
	p.h.host.Engine.Unlock()
}

// Dead implements provider.Provider.
func (p *process) Dead(addr ethertype.Addr, incarnation uint64) {
	if k := p.conns[addr]; k != nil && (!k.known || k.peer.Incarnation == incarnation) {
		k.fail(provider.ErrPeer, byeNone)
	}
}

// Peers implements provider.Provider.
func (p *process) Peers() (peers []provider.Peer) {
	for _, k := range p.conns {
		state := "asking"
		if k.known {
			state = "live"
		}
		s := provider.Peer{Identity: k.peer, State: state, Asks: k.Asks.Len(), Regions: len(k.regions), Grants: k.Grants.Len(),
			UnderWay: k.busy, Waiting: k.notes.waiting.Len(), Credits: k.notes.room}
		peers = append(peers, s)
	}
	return peers
}

// Counters implements provider.Provider.
func (p *process) Counters() provider.Counters { return p.count }
