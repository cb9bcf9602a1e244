package lanai

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/progress"
	"github.com/bobnet-go/bobnet/vmmc/internal/directory"
	"github.com/bobnet-go/bobnet/vmmc/internal/provider"
)

// names is a host's directory: the names of its processes, and look-ups of other
// nodes' names. A look-up repeats its query to all nodes. The host's lock guards names.
type names struct {
	h     *Card
	mine  map[string]ethertype.Addr
	looks map[uint32]*look
	seq   uint32
}

// look is a search for a name or for a user.
type look struct {
	gate  progress.Gate
	found ethertype.Addr
	of    ethertype.MAC // node of the process whose user is requested
	uid   uint32
	is    bool
}

// Delays between repeated queries.
const (
	askMin = 500 * time.Microsecond
	askMax = 50 * time.Millisecond
)

func (n *names) init(h *Card) {
	*n = names{h: h, mine: map[string]ethertype.Addr{}, looks: map[uint32]*look{}}
}

// asked responds to another node's query if a process of this node has the name.
func (n *names) asked(node int, seq uint32, key string) {
	if at, ok := n.mine[key]; ok {
		n.h.query(node, be16(be32([]byte{ctlFound}, seq), at.Port))
	}
}

// found handles the response to a query for a name.
func (n *names) found(seq uint32, at ethertype.Addr) {
	if l := n.looks[seq]; l != nil && !l.is && l.of == (ethertype.MAC{}) {
		l.found, l.is = at, true
		l.gate.Open(&n.h.host.Engine)
	}
}

// user returns the user of a process of this node.
func (n *names) user(port uint16, incarnation uint64) (uid uint32, ok bool) {
	s := n.h.procs[port]
	if s == nil || s.self.Incarnation != incarnation {
		return 0, false
	}
	return s.uid, true
}

// theirs handles the response with the user of another node's process.
func (n *names) theirs(mac ethertype.MAC, seq, uid uint32) {
	if l := n.looks[seq]; l != nil && !l.is && l.of == mac {
		l.uid, l.is = uid, true
		l.gate.Open(&n.h.host.Engine)
	}
}

// whoseLimit is the timeout of whose.
const whoseLimit = 2 * time.Second

// whose requests the user of a process from its node, and repeats the request until a response arrives.
func (n *names) whose(ctx context.Context, at ethertype.Addr, incarnation uint64) (uid uint32, proven bool) {
	e := &n.h.host.Engine
	ctx, cancel := e.WithTimeout(ctx, whoseLimit)
	defer cancel()
	e.Lock()
	defer e.Unlock()
	if at.MAC == n.h.cfg.MAC {
		return n.user(at.Port, incarnation)
	}
	l := &look{of: at.MAC}
	n.seq++
	seq := n.seq
	n.looks[seq] = l
	defer delete(n.looks, seq)
	for pause := askMin; !l.is; pause = min(2*pause, askMax) {
		if node, _, ok := n.h.line(at.MAC); ok {
			n.h.query(node, be64(be16(be32([]byte{ctlWhose}, seq), at.Port), incarnation))
			n.h.drive()
		}
		if n.pause(ctx, l, pause) != nil {
			return 0, false
		}
	}
	return l.uid, true
}

// ask queries all reachable nodes.
func (n *names) ask(seq uint32, key string) {
	if !n.h.prog.ready {
		return
	}
	for node := 1; node < n.h.prog.nodes.Len(); node++ {
		if _, ok := n.h.prog.nodes.Route(node); ok {
			n.h.query(node, append(be32([]byte{ctlQuery}, seq), key...))
		}
	}
	n.h.drive()
}

// find looks for a name until a node has it, or ctx ends.
func (n *names) find(ctx context.Context, key string) (ethertype.Addr, error) {
	e := &n.h.host.Engine
	e.Lock()
	defer e.Unlock()
	l := &look{}
	n.seq++
	seq := n.seq
	n.looks[seq] = l
	defer delete(n.looks, seq)
	for pause := askMin; ; pause = min(2*pause, askMax) {
		if at, ok := n.mine[key]; ok && n.h.prog.ready { // before the program is ready, it cannot receive messages of the host itself
			return at, nil
		}
		n.ask(seq, key)
		if err := n.pause(ctx, l, pause); err != nil {
			return ethertype.Addr{}, err
		}
		if l.is {
			return l.found, nil
		}
	}
}

// pause waits up to d for an answer.
func (n *names) pause(ctx context.Context, l *look, d time.Duration) error {
	e := &n.h.host.Engine
	w := e.Begin(ctx)
	defer e.End(&w)
	limited := e.Limit(&w, d)
	for !l.is {
		if err := e.Wait(&w, &l.gate); err != nil {
			if limited && errors.Is(err, progress.ErrTimeout) && e.Ended(ctx) == nil {
				return nil
			}
			return err
		}
	}
	return nil
}

// hostDirectory is the directory of a process on a host with a card.
type hostDirectory struct {
	h     *Card
	scope string
	mine  map[string]bool // guarded by the host's lock
	self  provider.Identity
}

var _ directory.Directory = (*hostDirectory)(nil)

func init() {
	directory.OnCard = func(host any, scope string) directory.Directory {
		if f := host.(*Card).far; f != nil {
			return &farDirectory{far: f, scope: scope}
		}
		return &hostDirectory{h: host.(*Card), scope: scope, mine: map[string]bool{}}
	}
}

// Enter implements directory.Directory, like the methods below.
func (d *hostDirectory) Enter(self provider.Identity) error {
	d.self = self
	node := directory.NodeKey(d.scope, self.Addr.MAC, self.Process)
	d.h.host.Engine.Lock()
	_, taken := d.h.names.mine[node]
	d.h.host.Engine.Unlock()
	if taken {
		return fmt.Errorf("%w: process %d of node %v", directory.ErrTaken, self.Process, self.Addr.MAC)
	}
	d.advertise(node)
	d.advertise(directory.NumberKey(d.scope, self.Process))
	return nil
}

func (d *hostDirectory) advertise(key string) {
	d.h.host.Engine.Lock()
	d.h.names.mine[key], d.mine[key] = d.self.Addr, true
	d.h.host.Engine.Unlock()
}

// Export advertises a word.
func (d *hostDirectory) Export(_ uint32, word string) error {
	if word != "" {
		d.advertise(directory.WordKey(d.scope, word))
	}
	return nil
}

// Unexport withdraws a word.
func (d *hostDirectory) Unexport(_ uint32, word string) {
	if word == "" {
		return
	}
	key := directory.WordKey(d.scope, word)
	d.h.host.Engine.Lock()
	delete(d.h.names.mine, key)
	delete(d.mine, key)
	d.h.host.Engine.Unlock()
}

// Match sends the query to all nodes until one responds.
func (d *hostDirectory) Match(ctx context.Context, name directory.Name) (directory.Found, error) {
	at, err := d.h.names.find(ctx, name.Key(d.scope))
	return directory.Found{Addr: at}, err
}

// Prove requests the user of a process from the driver of the process's node.
func (d *hostDirectory) Prove(_ provider.Ticket, from provider.Identity, answer func(uid uint32, proven bool)) {
	if d.h.Virtual() { // other goroutines do not run there
		answer(0, false)
		return
	}
	go func() { answer(d.h.names.whose(context.Background(), from.Addr, from.Incarnation)) }()
}

// Spent does nothing.
func (d *hostDirectory) Spent(provider.Ticket) {}

// Met does nothing: a card detects a node's end by itself.
func (d *hostDirectory) Met(ethertype.MAC) {}

// OnDeath does nothing.
func (d *hostDirectory) OnDeath(func(addr ethertype.Addr, incarnation uint64)) {}

// Close withdraws all names.
func (d *hostDirectory) Close() {
	d.h.host.Engine.Lock()
	defer d.h.host.Engine.Unlock()
	for key := range d.mine {
		delete(d.h.names.mine, key)
	}
	clear(d.mine)
}
