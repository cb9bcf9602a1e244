package endpoint

import (
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/progress/logqueue"
	"github.com/bobnet-go/bobnet/transport/latch"
	"github.com/bobnet-go/bobnet/vipl"
)

// Node is a program's access to active messages on one NIC (what AM_Init makes).
// It may be shared between goroutines. One mutex guards everything below it; it
// is not held while a handler runs.
type Node struct {
	cfg         Config
	nic         *vipl.NIC
	own         bool // we opened nic
	incarnation uint32

	mu        latch.Latch
	way       provider // to other nodes
	loop      loop     // to endpoints of this node
	endpoints map[uint32]*Endpoint
	services  map[uint32]*Endpoint // published, by the numbers of their names
	lastID    uint32
	bundles   map[*Bundle]struct{}
	leader    *Bundle // for which a goroutine waits on way
	followers followers
	running   int // handlers
	taken     int // of Config.MaxConnectionMemory
	closed    bool
	virtual   bool // time is
	stats     Stats
	fresh     fresh
	pacing    pacing
	corked    [2]int // by side: messages that are, as the provider counts
	crowded   int    // empty polls that will make way, see lock
}

// Open opens a node (AM_Init). Close it in the end.
func Open(cfg *Config) (*Node, error) {
	c, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	n := &Node{cfg: c, nic: c.NIC, endpoints: map[uint32]*Endpoint{}, services: map[uint32]*Endpoint{}, bundles: map[*Bundle]struct{}{}}
	if n.nic == nil {
		if n.nic, err = openNIC(&c); err != nil {
			return nil, err
		}
		n.own = true
	}
	n.incarnation = rand.Uint32() | 1 // 0 stands for a published name
	if c.Seed != 0 {
		n.incarnation = rand.New(rand.NewPCG(c.Seed, uint64(n.nic.Now()))).Uint32() | 1
	}
	n.loop.node, n.virtual = n, n.nic.Link().Info().Virtual
	if n.way, err = openVIs(n); err != nil {
		if n.own {
			n.nic.Close()
		}
		return nil, err
	}
	return n, nil
}

// NIC returns the NIC that the node uses.
func (n *Node) NIC() *vipl.NIC { return n.nic }

// Addr returns the address at which the node takes connections, which is in the
// names of its endpoints.
func (n *Node) Addr() ethertype.Addr { return n.way.addr() }

// Close frees all bundles and their endpoints (AM_Terminate), and closes the
// NIC if the node has opened it. Calls that wait return ErrClosed. Peers get
// back what they have sent and no handler has answered; what has been sent to
// them, the answers of the last handlers above all, is given a second at most to
// arrive. It fails with ErrInUse while a handler is running. Closing twice does
// nothing.
func (n *Node) Close() error {
	err := n.close()
	n.flushLog()
	return err
}

// flushLog waits a moment for the last lines of the log to be handled.
func (n *Node) flushLog() { logqueue.New(n.cfg.Logger).Flush(logFlush) }

const logFlush = 100 * time.Millisecond

func (n *Node) close() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.closed:
		return nil
	case n.running > 0:
		return opError("close", ErrInUse, "%d handlers are running", n.running)
	}
	n.closed = true
	if n.endLead() {
		n.way.drain(n.owes)
	}
	for b := range n.bundles {
		b.free()
	}
	n.way.close()
	if n.own {
		return n.nic.Close()
	}
	return nil
}

// endLead gets the goroutine that waits, if any, out of the closed node's way. It
// reports false where that one cannot run before the caller sleeps.
func (n *Node) endLead() bool {
	for n.leader != nil {
		n.way.wake()
		if n.virtual {
			return false
		}
		n.mu.Unlock()
		runtime.Gosched()
		n.mu.Lock()
	}
	return true
}

// owes reports whether a peer of the node waits for the rest of an answer.
func (n *Node) owes() bool {
	for _, ep := range n.endpoints {
		for s := range ep.servers {
			if _, local := s.ch.(*loopChannel); !local && s.owes() {
				return true
			}
		}
	}
	return false
}

// run runs a handler of bundle b without the mutex. The half that it belongs to
// is marked running, so that its memory stays.
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

// ended is deferred by run, so that neither a panic nor the end of the
// goroutine in a handler leaves the node locked.
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

// admit judges a request for a connection.
func (n *Node) admit(h *hello) (half, Reason) {
	ep := n.endpoints[h.id]
	if h.incarnation == 0 {
		ep = n.services[h.id]
	}
	switch {
	case h.incarnation != n.incarnation && h.incarnation != 0 || ep == nil:
		return nil, ReasonBadEndpoint
	case len(ep.servers) >= n.cfg.MaxConnections, h.shape.memory(serving) > n.cfg.MaxConnectionMemory-n.taken:
		return nil, ReasonCongestion
	}
	return &server{ep: ep, from: h.from, shape: h.shape, slots: make([]serverSlot, h.shape.slots)}, 0
}

// attach gives a half that admit has made its channel.
func (n *Node) attach(up half, ch channel) {
	s := up.(*server)
	s.ch = ch
	s.ep.servers[s] = struct{}{}
	n.taken += s.shape.memory(serving)
}
