package lanai

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/fifo"
	"github.com/bobnet-go/bobnet/internal/progress"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/vmmc/internal/asking"
	"github.com/bobnet-go/bobnet/vmmc/internal/provider"
)

// process implements provider.Provider for a process of a host. Package vmmc calls it under its own
// rules; fields that the host's lock guards are marked.
type process struct {
	asking.Provider
	seat
	up  provider.Up
	cfg provider.ProcessConfig

	conns  map[ethertype.Addr]*conn
	parted map[ethertype.Addr]parting
	closed bool
	seen   uint32
	taken  []event                // events in Turn
	known  map[ethertype.Addr]int // connections and partings; the host's lock guards it
	others int                    // events of other processes that Turn has handled since took
	count  provider.Counters
	spare  []*send

	// Guarded by the host's lock, like the seat.
	next    uint32           // number of the next request
	slots   [slots]*send     // write whose request is in each slot
	guest   *farProcess      // on a card of another process, else nil
	backlog fifo.Queue[part] // requests that wait for a slot
	inbox   []event
	cuts    map[ethertype.MAC]int // index in inbox of the event that the connections with a node have ended
	gate    progress.Gate
	kicked  bool
}

var _ provider.Provider = (*process)(nil)

// event is an event for a process.
type event struct {
	kind   eventKind
	from   ethertype.Addr
	id     provider.Identity
	body   []byte
	frame  uint32
	node   int
	line   uint64
	number uint32
	how    ending
}

type eventKind uint8

const (
	eventMessage eventKind = iota // from another process
	eventNote                     // a notification
	eventEnded                    // a request has ended
	eventCut                      // all connections with a node have ended
	eventRefused                  // a node has refused a write
	eventClosed                   // the host has
	eventStale                    // a message of a connection that has ended since
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

// join adds a process to the host. The error wraps hardware.ErrSRAM if the card has no room. It
// calls up from the first Turn on.
func (h *Card) join(cfg provider.ProcessConfig, up provider.Up) (*process, error) {
	p := &process{up: up, cfg: cfg, conns: map[ethertype.Addr]*conn{}, parted: map[ethertype.Addr]parting{}, known: map[ethertype.Addr]int{}, next: 1}
	p.seat = seat{listener: p, h: h, frames: &h.frames, uid: uint32(os.Geteuid()), self: provider.Identity{Process: cfg.Process}}
	if h.far != nil {
		return p, h.far.join(p)
	}
	h.host.Engine.Lock()
	defer h.host.Engine.Unlock()
	return p, h.sit(&p.seat, nil)
}

// tell implements listener: it queues an event for the process's next Turn. The caller must hold
// the lock.
func (p *process) tell(e event) {
	if e.kind == eventCut && p.cutAgain(&e) {
		return
	}
	p.inbox = append(p.inbox, e)
	p.gate.Open(&p.h.host.Engine)
	if !p.kicked {
		p.kicked = true
		p.h.kicks.Owe(p)
	}
}

// cutAgain reports whether inbox already contains an event for the end of the connections with the node. This
// event then also ends the connections that have begun since, and the messages of the node's processes on these
// connections no longer count. So inbox has at most one such event for each node, however often lines are cut
// before the process handles them.
func (p *process) cutAgain(e *event) bool {
	at, is := p.cuts[e.from.MAC]
	if !is {
		if p.cuts == nil {
			p.cuts = map[ethertype.MAC]int{}
		}
		p.cuts[e.from.MAC] = len(p.inbox)
		return false
	}
	p.inbox[at].line = e.line
	for i := at + 1; i < len(p.inbox); i++ {
		if x := &p.inbox[i]; x.kind == eventMessage && x.from.MAC == e.from.MAC {
			*x = event{kind: eventStale}
		}
	}
	return true
}

// kick announces that Turn has work. No lock is held.
func (p *process) kick() {
	p.h.host.Engine.Lock()
	p.kicked = false
	p.h.host.Engine.Unlock()
	p.cfg.Kick()
}

// touched implements listener.
func (p *process) touched() { p.gate.Open(&p.h.host.Engine) }

// waiting implements listener.
func (p *process) waiting() int { return p.backlog.Len() }

// finished implements listener.
func (p *process) finished(number uint32, how ending) {
	p.tell(event{kind: eventEnded, number: number, how: how})
}

// Self implements provider.Provider.
func (p *process) Self() provider.Identity { return p.self }

// Now implements provider.Provider.
func (p *process) Now() int64 { return p.h.host.Now() }

// Virtual implements provider.Provider.
func (p *process) Virtual() bool { return p.h.Virtual() }

// Apart implements provider.Provider.
func (p *process) Apart() bool { return p.guest != nil }

// WithTimeout implements provider.Provider.
func (p *process) WithTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return p.h.host.Engine.WithTimeout(ctx, d)
}

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

// failure returns why the card is unusable, or nil. The caller must hold the lock.
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
		p.took()
		p.taken, p.inbox = p.inbox, p.taken[:0]
		clear(p.cuts)
		p.seen = p.gate.Opened() // also when the host has closed the process, or waits would not wait
		p.h.host.Engine.Unlock()
		if len(p.taken) == 0 {
			return
		}
		for i := range p.taken {
			if !p.closed {
				p.handle(&p.taken[i])
			}
			p.others += p.taken[i].ofOthers()
			p.taken[i] = event{}
		}
	}
}

// ofOthers returns 1 for an event that the account told counts, else 0.
func (e *event) ofOthers() int {
	switch e.kind {
	case eventMessage, eventNote, eventRefused, eventStale:
		return 1
	}
	return 0
}

// took reports that Turn has handled events of other processes, which makes room for further ones. The caller must hold
// the host's lock.
func (p *process) took() {
	if p.guest == nil {
		p.told.Took(p.others)
	} else {
		p.guest.took(p.others)
	}
	p.others = 0
}

// relation implements listener.
func (p *process) relation(to ethertype.Addr) relation {
	switch {
	case p.known[to] > 0:
		return acquainted
	case p.told.Has(to):
		return heard
	}
	return stranger
}

// knows adds by to the number of connections and partings with a process. The caller must hold the
// host's lock.
func (p *process) knows(at ethertype.Addr, by int) {
	if p.known[at] += by; p.known[at] == 0 {
		delete(p.known, at)
	}
}

// Reaches implements provider.Provider.
func (p *process) Reaches(mem []byte) error {
	if p.guest == nil || len(mem) == 0 {
		return nil
	}
	p.h.host.Engine.Lock()
	defer p.h.host.Engine.Unlock()
	if _, ok := p.space.reaches(mem); !ok {
		return fmt.Errorf("%w: the card belongs to another process and writes only to memory of Process.AllocMem", provider.ErrMemory)
	}
	return nil
}

// AllocMem implements provider.Provider.
func (p *process) AllocMem(n int) ([]byte, error) {
	if p.guest == nil {
		return make([]byte, n), nil
	}
	return p.guest.alloc(n)
}

// FreeMem implements provider.Provider.
func (p *process) FreeMem(mem []byte) {
	if p.guest != nil {
		p.guest.free(mem)
	}
}

// handle handles one event.
func (p *process) handle(e *event) {
	switch e.kind {
	case eventMessage:
		p.receive(e)
	case eventNote:
		p.notified(e.frame)
	case eventEnded:
		p.requestEnded(e.number, e.how)
	case eventCut:
		p.lineBegan(e.from.MAC, e.node, e.line)
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

// lineBegan ends everything that depended on earlier lines to a node.
func (p *process) lineBegan(mac ethertype.MAC, node int, line uint64) {
	for _, k := range p.inOrder() {
		if k.at.MAC == mac && k.line < line {
			k.fail(provider.ErrPeer, byeNone)
		}
	}
	p.parts(func(at ethertype.Addr, x parting) bool { return at.MAC == mac && x.line < line })
	if p.guest != nil {
		p.guest.began(node, line)
	}
}

// inOrder returns the connections in the order of their addresses.
func (p *process) inOrder() []*conn {
	return slices.SortedFunc(maps.Values(p.conns), func(a, b *conn) int { return a.at.Compare(b.at) })
}

// Busy implements provider.Provider. Without retransmission, data in SRAM will leave.
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
	p.backlog.Clear()
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
