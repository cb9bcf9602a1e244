package endpoint

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/bobnet-go/bobnet/endpoint/internal/loop"
	"github.com/bobnet-go/bobnet/endpoint/internal/provider"
	"github.com/bobnet-go/bobnet/endpoint/internal/wire"
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/admission"
	"github.com/bobnet-go/bobnet/internal/latch"
	"github.com/bobnet-go/bobnet/internal/logqueue"
)

// Node is a program's access to active messages on one NIC (the result of AM_Init). It may be
// shared between goroutines. One mutex guards all its bundles and endpoints. It is not held while a
// handler runs.
type Node struct {
	cfg         Config
	incarnation uint32

	mu         latch.Latch
	way        provider.Provider // to other nodes
	loop       provider.Dialer   // to endpoints of this node
	budget     provider.Budget   // memory of the connections that others have requested
	endpoints  map[uint32]*Endpoint
	services   map[uint32]*Endpoint // published endpoints, by the numbers of their names
	lastID     uint32
	bundles    set[*Bundle]
	leader     *Bundle       // bundle for which a goroutine waits on way
	left       provider.Gate // opened by the leader of a closed node when it returns; nil if no goroutine waits there
	followers  followers
	running    int // handlers
	closed     bool
	virtual    bool // the node is in virtual time
	stats      Stats
	lostLogged int64 // time of the last log line about a lost reply
	fresh      fresh
	pacing     pacing
	corked     provider.Corked
	atOnce     *Bundle // bundle for which way.Deliver may handle a message at once
	crowded    int     // remaining empty polls that yield, see lock
}

// Open opens a node (AM_Init). The caller must close it. A nil cfg means the defaults.
//
// ctx bounds the call alone, not the life of the node. Open may wait, as vipl.Open does. If ctx
// ends before or meanwhile, the error wraps the context's error.
func Open(ctx context.Context, cfg *Config) (*Node, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("endpoint: open: %w", err)
	}
	c, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	n := &Node{cfg: c, budget: provider.Budget{Most: c.MaxConnectionMemory}, endpoints: map[uint32]*Endpoint{}, services: map[uint32]*Endpoint{}}
	if n.way, err = c.openProvider(ctx, (*host)(n), &n.budget, &n.corked); err != nil {
		return nil, err
	}
	n.loop, n.virtual = loop.New((*host)(n), &n.budget), n.way.Virtual()
	n.incarnation = rand.Uint32() | 1 // 0 stands for a published name
	if c.Seed != 0 {
		n.incarnation = rand.New(rand.NewPCG(c.Seed, uint64(n.way.Now()))).Uint32() | 1
	}
	return n, nil
}

// Addr returns the address at which the node accepts connections. The names of its endpoints
// contain it.
func (n *Node) Addr() ethertype.Addr { return n.way.Addr() }

// Close frees all bundles and their endpoints (AM_Terminate), and closes the NIC if the node opened
// it. Calls that wait return ErrClosed. Messages of peers that no handler has answered return to
// them. Messages to peers, especially the replies of the last handlers, have up to a second to
// arrive, and are then handled there; long bulk data that have not arrived completely are lost.
// Close fails with ErrInUse while a handler is running. Closing twice does nothing.
func (n *Node) Close() error {
	err := n.close()
	n.flushLog()
	return err
}

// flushLog waits briefly for the handler to write the last lines of the log.
func (n *Node) flushLog() { logqueue.New(n.cfg.Logger).Flush(logFlush) }

const logFlush = 100 * time.Millisecond

func (n *Node) close() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.closed:
		return nil
	case n.running > 0:
		return provider.OpError("close", ErrInUse, "%d handlers are running", n.running)
	}
	n.closed = true
	if n.endLead() {
		n.way.Drain(n.owes)
	}
	for _, b := range n.bundles.all() {
		b.free()
	}
	return n.way.Close()
}

// endLead makes the leader, if any, return from the closed node. It wakes the leader and waits at a
// gate that the leader opens when it returns. It reports false if the provider has failed in
// virtual time, where the leader cannot run before the caller sleeps.
func (n *Node) endLead() bool {
	for n.leader != nil {
		if n.left == nil {
			n.left = n.way.Gate()
		}
		n.way.Wake()
		n.mu.Unlock()
		err := n.left.Wait(context.Background())
		if err != nil { // the leader's wait has ended, too
			runtime.Gosched()
		}
		n.mu.Lock()
		if err != nil && n.virtual {
			return n.leader == nil
		}
	}
	return true
}

// owes reports whether a peer of the node waits for the rest of an answer.
func (n *Node) owes() bool {
	for _, ep := range n.endpoints {
		for s := range ep.servers.places {
			if s.from.Addr != n.way.Addr() && s.owes() { // within the node no goroutine waits
				return true
			}
		}
	}
	return false
}

// run runs a handler of bundle b without the mutex. It marks the handler's half as running, so that
// its memory stays.
func (n *Node) run(b *Bundle, h Handler, t Token, args []uint32, data []byte) {
	b.running++
	n.running++
	n.leave()
	defer n.ended(b)
	h(t, args, data)
}

// runReturn runs a handler of returned messages.
func (n *Node) runReturn(b *Bundle, h ReturnHandler, r *Returned) {
	b.running++
	n.running++
	n.leave()
	defer n.ended(b)
	h(r)
}

// ended is deferred by run, so that neither a panic nor runtime.Goexit in a handler leaves the node locked.
func (n *Node) ended(b *Bundle) {
	cause := recover()
	if cause != nil {
		n.cfg.Logger.Error("endpoint: a handler has panicked", "cause", cause, "stack", string(debug.Stack()))
	}
	n.mu.Lock()
	if cause != nil {
		n.stats.Panics++
	}
	b.running--
	n.running--
}

// host is the interface of a Node to its providers. It implements provider.Host.
type host Node

func (n *host) Admit(h *wire.Hello) (provider.Half, Reason) {
	ep := n.endpoints[h.ID]
	if h.Incarnation == 0 {
		if ep = n.services[h.ID]; ep != nil {
			h.ID = ep.id
		}
	}
	switch {
	case h.Incarnation != n.incarnation && h.Incarnation != 0 || ep == nil:
		return nil, ReasonBadEndpoint
	case ep.full(h.From.Addr.MAC):
		return nil, ReasonCongestion
	}
	return &server{ep: ep, from: h.From, shape: h.Shape, due: 1, slots: make([]serverSlot, h.Shape.Slots)}, 0
}

func (n *host) Attach(up provider.Half, ch provider.Channel) {
	s := up.(*server)
	s.ch = ch
	s.ep.servers.add(s)
	s.ep.countSender(s.from.Addr.MAC, 1)
}

// full reports whether no further sender of a station is accepted.
func (ep *Endpoint) full(station ethertype.MAC) bool {
	own := ep.senders[station]
	return own >= admission.Part(ep.node.cfg.MaxConnections, ep.servers.len()-own)
}

// countSender adds by, 1 or -1, to the number of a station's senders.
func (ep *Endpoint) countSender(station ethertype.MAC, by int) {
	if ep.senders == nil {
		ep.senders = map[ethertype.MAC]int{}
	}
	if ep.senders[station] += by; ep.senders[station] == 0 {
		delete(ep.senders, station)
	}
}

func (n *host) Refused(reason Reason) { n.stats.Refused[reason]++ }

func (n *host) Stray() { n.stats.Strays++ }
