package daemon

import (
	"fmt"
	"maps"
	"slices"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/admission"
	"github.com/bobnet-go/bobnet/vmmc/internal/directory"
	"github.com/bobnet-go/bobnet/vmmc/internal/provider"
)

// The table holds the state and the decisions of a daemon, without sockets, clocks, locks and
// goroutines. Events enter through its methods. It acts through world.

// world carries out the actions of a table. Its methods do not block, and do not call the table
// back before they return.
type world interface {
	// tell sends a message to a process.
	tell(c *client, m directory.Message)
	// gone reports whether a process has ended although the table still has its client.
	gone(c *client) bool
	// advertise makes addr findable on the segment by name, until withdraw.
	advertise(name string, addr ethertype.Addr)
	withdraw(name string)
	// seek looks w.key up on the segment and calls table.found. If w.stop is set, calling it
	// cancels the search.
	seek(w *want)
	// ask requests from the daemon of the node of q.from whether that process has shown the ticket, and the
	// process's user. It then calls table.answered.
	ask(q *proof)
	// report sends the death of c to the daemon of a node, and then calls table.reported.
	report(c *client, node ethertype.MAC)
}

// Limits on what one process may have open.
const (
	maxWants   = 1 << 16
	maxTickets = 1 << 16
	maxExports = 1 << 20
	maxNodes   = 1 << 14
	maxProofs  = 1 << 10 // more have no user
)

// Limits on what all processes of one user may have open, except root's, and those of all users. A
// cost is about the number of bytes that an item uses, here and in the daemon's NIC.
const (
	userProcesses = 1 << 12
	userMemory    = 64 << 20
	allMemory     = 256 << 20

	costExport = 128
	costName   = 1 << 10 // a name that is advertised on the segment
	costWant   = 4 << 10
	costTicket = 256
	costNode   = 96
	costBehind = 1 << 10
	costProof  = 512 // until the other daemon has responded, or ask has given up
	costReport = 512 // until the other daemon has confirmed the report, or has not responded in time
)

// client is a process of the node.
type client struct {
	pid  int32
	uid  uint32
	conn any // the world's own

	entered bool
	left    bool // its messages and its end no longer matter
	over    bool // it has exceeded a limit of its user
	deaf    bool // it does not read its messages, and is disconnected
	cost    int64
	gate    *admission.Gate[uint32]
	self    provider.Identity
	scope   string
	exports map[uint32]struct{}
	words   map[string]uint32
	names   map[string]struct{} // the names under which it is found
	wants   map[uint32]*want
	tickets map[provider.Ticket]ethertype.Addr // the exporter that each ticket is for
	met     map[ethertype.MAC]struct{}         // nodes to notify of its death
	proofs  int                                // Prove requests without a response
	next    []func()                           // functions to run when it has ended
	behind  []directory.Message                // if not nil, it waits for the end of another process: its messages so far
}

// want is a Match request without a response yet.
type want struct {
	c    *client
	seq  uint32
	key  string
	stop func() // the world's own
	done bool
}

// proof is a Prove request without a response yet.
type proof struct {
	c      *client
	seq    uint32
	ticket provider.Ticket
	from   provider.Identity // the process that has shown the ticket
	paid   bool              // costProof is counted
}

// shownBy is a ticket and the process that shows it. A process that obtains another process's
// ticket, and shows it as its own, thereby takes nothing from that process.
type shownBy struct {
	ticket provider.Ticket
	who    provider.Identity
}

type table struct {
	node    ethertype.MAC
	world   world
	clients map[*client]struct{}
	names   map[string][]*client // the first is the one that is found
	waiting map[string]map[*want]struct{}
	tickets map[shownBy]*client
	draw    func() provider.Ticket
	gate    *admission.Gate[uint32] // by user
	stats   Stats
}

// Stats counts events since the daemon started.
type Stats struct {
	Matches  uint64 `metric:"bobnet_daemon_matches_total" help:"Exporters found for imports."`
	Proven   uint64 `metric:"bobnet_daemon_users_proven_total" help:"Times that the user of a process was confirmed to another daemon."`
	Unproven uint64 `metric:"bobnet_daemon_users_unproven_total" help:"Requests of other daemons with an unknown ticket."`
	Deaths   uint64 `metric:"bobnet_daemon_deaths_total" help:"Processes of this node that ended without unregistering."`
	Told     uint64 `metric:"bobnet_daemon_deaths_heard_total" help:"Processes of other nodes reported as ended by their daemons."`
	Refused  uint64 `metric:"bobnet_daemon_refused_processes_total" help:"Processes refused."`
}

func newTable(node ethertype.MAC, w world, draw func() provider.Ticket) *table {
	return &table{node: node, world: w, draw: draw, gate: newGate(), clients: map[*client]struct{}{}, names: map[string][]*client{},
		waiting: map[string]map[*want]struct{}{}, tickets: map[shownBy]*client{}}
}

func newGate() *admission.Gate[uint32] {
	return admission.New(admission.Limits{Conns: userProcesses, AllConns: maxProcesses, Bytes: userMemory, AllBytes: allMemory}, uint32(0))
}

// charge counts an item for the client's user, and reports whether the limit permits it. If not, the
// daemon disconnects the client.
func (c *client) charge(cost int64) bool {
	if !c.gate.Take(c.uid, cost) {
		c.over = true
		return false
	}
	c.cost += cost
	return true
}

// give returns a charge that take made.
func (c *client) give(cost int64) {
	c.gate.Give(c.uid, cost)
	c.cost -= cost
}

// connect adds a process that has not sent anything yet.
func (t *table) connect(pid int32, uid uint32, conn any) *client {
	c := &client{pid: pid, uid: uid, conn: conn, gate: t.gate, exports: map[uint32]struct{}{}, words: map[string]uint32{}, names: map[string]struct{}{},
		wants: map[uint32]*want{}, tickets: map[provider.Ticket]ethertype.Addr{}, met: map[ethertype.MAC]struct{}{}}
	t.clients[c] = struct{}{}
	return c
}

// hear handles a message from a process. It returns false if the process violates the protocol, or has
// left; the caller then disconnects the process.
func (t *table) hear(c *client, m *directory.Message) bool {
	if c.left {
		return false
	}
	if c.behind != nil && m.Kind != directory.Leave { // it is not in yet
		c.behind = append(c.behind, *m)
		return len(c.behind) < maxExports && c.charge(costBehind)
	}
	if !c.entered && m.Kind != directory.Enter && m.Kind != directory.Leave {
		return t.outside(c, m)
	}
	switch m.Kind {
	case directory.Enter:
		return t.enter(c, m)
	case directory.Leave:
		t.leave(c)
		return false
	case directory.Export:
		return t.export(c, m.ID, m.Text)
	case directory.Unexport:
		t.unexport(c, m.ID, m.Text)
	case directory.Match:
		return t.match(c, m)
	case directory.Forget:
		if w := c.wants[m.Seq]; w != nil {
			t.drop(w)
		}
	case directory.Spent:
		t.spend(c, m.Ticket)
	case directory.Shown:
		return t.shown(c, m.Ticket, m.Addr)
	case directory.Met:
		return c.meet(m.Addr.MAC)
	case directory.Prove:
		c.proofs++
		p := &proof{c: c, seq: m.Seq, ticket: m.Ticket, from: m.Self}
		if p.paid = c.proofs <= maxProofs && t.gate.Take(c.uid, costProof); !p.paid {
			t.answered(p, 0, false)
		} else {
			t.world.ask(p)
		}
	default:
		return false
	}
	return true
}

// outside responds to a process that has not entered, or was refused.
func (t *table) outside(c *client, m *directory.Message) bool {
	switch m.Kind {
	case directory.Match:
		t.world.tell(c, directory.Message{Kind: directory.Refused, Seq: m.Seq, Text: "the daemon did not admit the process under its number"})
	case directory.Prove:
		c.proofs++
		t.answered(&proof{c: c, seq: m.Seq}, 0, false)
	}
	return true
}

// enter admits a process under its number.
func (t *table) enter(c *client, m *directory.Message) bool {
	if c.entered {
		return false
	}
	refuse := func(format string, args ...any) bool {
		t.stats.Refused++
		t.world.tell(c, directory.Message{Kind: directory.Refused, Seq: m.Seq, Text: fmt.Sprintf(format, args...)})
		return true
	}
	if m.Self.Addr.MAC != t.node {
		return refuse("this is the daemon of %v, but the process uses NIC %v (start a daemon for that interface)", t.node, m.Self.Addr.MAC)
	}
	if other := t.first(directory.NodeKey(m.Text, t.node, m.Self.Process)); other != nil {
		if t.world.gone(other) { // the last messages of the old process come first
			c.behind = []directory.Message{*m}
			other.next = append(other.next, func() { t.goOn(c) })
			return true
		}
		return refuse("process %d of scope %q already exists: PID %d of user %d", m.Self.Process, m.Text, other.pid, other.uid)
	}
	c.entered, c.self, c.scope = true, m.Self, m.Text
	t.world.tell(c, directory.Message{Kind: directory.Entered, Seq: m.Seq})
	t.name(c, directory.NumberKey(c.scope, c.self.Process))
	t.name(c, directory.NodeKey(c.scope, t.node, c.self.Process))
	return true
}

// goOn handles the messages that a process sent while it waited for another process's end.
func (t *table) goOn(c *client) {
	if c.left {
		return
	}
	said := c.behind
	c.behind = nil
	c.give(costBehind * int64(len(said)-1)) // the first is Enter, which was not counted
	for i := range said {
		if !t.hear(c, &said[i]) {
			t.leave(c)
		}
	}
}

// first returns the client that is found by a name on this node.
func (t *table) first(key string) *client {
	if all := t.names[key]; len(all) > 0 {
		return all[0]
	}
	return nil
}

// name makes c findable by a name, unless another client has the name first.
func (t *table) name(c *client, key string) {
	if _, has := c.names[key]; has {
		return
	}
	c.names[key] = struct{}{}
	t.names[key] = append(t.names[key], c)
	if t.first(key) != c {
		return
	}
	t.world.advertise(key, c.self.Addr)
	for w := range t.waiting[key] {
		t.found(w, c.self.Addr)
	}
}

// unname removes a name from c. The next client with the name is then found by it.
func (t *table) unname(c *client, key string) {
	if _, has := c.names[key]; !has {
		return
	}
	delete(c.names, key)
	was := t.first(key)
	if rest := slices.DeleteFunc(t.names[key], func(x *client) bool { return x == c }); len(rest) == 0 {
		delete(t.names, key)
	} else {
		t.names[key] = rest
	}
	if was != c {
		return
	}
	t.world.withdraw(key)
	if next := t.first(key); next != nil {
		t.world.advertise(key, next.self.Addr)
	}
}

func (t *table) export(c *client, id uint32, word string) bool {
	if len(c.exports)+len(c.words) >= maxExports || len(word) > provider.MaxWord {
		return false
	}
	if word == "" {
		if _, has := c.exports[id]; !has && !c.charge(costExport) {
			return false
		}
		c.exports[id] = struct{}{}
		return true
	}
	if _, has := c.words[word]; !has && !c.charge(costName) {
		return false
	}
	c.words[word] = id
	t.name(c, directory.WordKey(c.scope, word))
	return true
}

func (t *table) unexport(c *client, id uint32, word string) {
	if word == "" {
		if _, has := c.exports[id]; has {
			c.give(costExport)
		}
		delete(c.exports, id)
		return
	}
	if _, has := c.words[word]; has {
		c.give(costName)
	}
	delete(c.words, word)
	t.unname(c, directory.WordKey(c.scope, word))
}

// match responds at once if the exporter is on this node. Otherwise it starts a search of the segment, and
// responds when the exporter is found on the segment or on this node.
func (t *table) match(c *client, m *directory.Message) bool {
	if c.wants[m.Seq] != nil || len(c.wants) >= maxWants || !c.charge(costWant) {
		return false
	}
	name := directory.Name{Node: m.Addr.MAC, Process: m.Self.Process, ID: m.ID, Word: m.Text}
	w := &want{c: c, seq: m.Seq, key: name.Key(c.scope)}
	c.wants[w.seq] = w
	if t.waiting[w.key] == nil {
		t.waiting[w.key] = map[*want]struct{}{}
	}
	t.waiting[w.key][w] = struct{}{}
	if local := t.first(w.key); local != nil {
		t.found(w, local.self.Addr)
		return true
	}
	t.world.seek(w)
	return true
}

// drop deletes a want.
func (t *table) drop(w *want) {
	w.done = true
	if w.c.wants[w.seq] == w {
		w.c.give(costWant)
	}
	delete(w.c.wants, w.seq)
	if delete(t.waiting[w.key], w); len(t.waiting[w.key]) == 0 {
		delete(t.waiting, w.key)
	}
	if w.stop != nil {
		w.stop()
	}
}

// found responds to a want with a ticket for the exporter.
func (t *table) found(w *want, addr ethertype.Addr) {
	if w.done {
		return
	}
	t.drop(w)
	ticket := t.draw()
	if !t.shown(w.c, ticket, addr) {
		ticket = provider.Ticket{}
	}
	t.stats.Matches++
	t.world.tell(w.c, directory.Message{Kind: directory.Matched, Seq: w.seq, Addr: addr, Ticket: ticket})
}

// fail reports to the process of a want that the exporter cannot be looked up.
func (t *table) fail(w *want, why error) {
	if w.done {
		return
	}
	t.drop(w)
	t.world.tell(w.c, directory.Message{Kind: directory.Refused, Seq: w.seq, Text: why.Error()})
}

// shown records that c shows a ticket at an address, and nowhere else.
func (t *table) shown(c *client, ticket provider.Ticket, at ethertype.Addr) bool {
	if t.tickets[shownBy{ticket, c.self}] != nil || len(c.tickets) >= maxTickets || ticket == (provider.Ticket{}) || !c.meet(at.MAC) || !c.charge(costTicket) {
		return false
	}
	t.tickets[shownBy{ticket, c.self}], c.tickets[ticket] = c, at
	return true
}

func (t *table) spend(c *client, ticket provider.Ticket) {
	if key := (shownBy{ticket, c.self}); t.tickets[key] == c {
		c.give(costTicket)
		delete(t.tickets, key)
		delete(c.tickets, ticket)
	}
}

func (c *client) meet(node ethertype.MAC) bool {
	if _, known := c.met[node]; !known && (len(c.met) >= maxNodes || !c.charge(costNode)) {
		return false
	}
	c.met[node] = struct{}{}
	return true
}

// whose returns the user of the process that showed a ticket at an address. known is true if this
// daemon gave the ticket to that process, for that address.
func (t *table) whose(ticket provider.Ticket, from provider.Identity, at ethertype.Addr) (uid uint32, known bool) {
	c := t.tickets[shownBy{ticket, from}]
	if c == nil || c.tickets[ticket] != at {
		return 0, false
	}
	return c.uid, true
}

// answered handles the result of world.ask, and responds to the Prove request.
func (t *table) answered(q *proof, uid uint32, proven bool) {
	if q.paid {
		t.gate.Give(q.c.uid, costProof)
	}
	if q.c.proofs--; q.c.left {
		return
	}
	if proven {
		t.stats.Proven++
	} else {
		t.stats.Unproven++
	}
	t.world.tell(q.c, directory.Message{Kind: directory.Proven, Seq: q.seq, UID: uid, Yes: proven})
}

// ended handles the end of a process that did not leave. It informs the processes of this node and
// all nodes with which the process communicated.
func (t *table) ended(c *client) {
	if c.left {
		return
	}
	if c.entered {
		t.stats.Deaths++
		t.tellDeath(c.self)
		for _, node := range slices.SortedFunc(maps.Keys(c.met), func(a, b ethertype.MAC) int { return slices.Compare(a[:], b[:]) }) {
			if node != t.node && t.gate.Take(c.uid, costReport) {
				t.world.report(c, node)
			}
		}
	}
	t.leave(c)
}

// reported handles the end of a report about the death of c. It takes no lock.
func (t *table) reported(c *client) { t.gate.Give(c.uid, costReport) }

// died handles another daemon's report that a process of its node has died.
func (t *table) died(dead provider.Identity) {
	t.stats.Told++
	t.tellDeath(dead)
}

func (t *table) tellDeath(dead provider.Identity) {
	for c := range t.clients {
		if c.entered {
			t.world.tell(c, directory.Message{Kind: directory.Died, Self: dead})
		}
	}
}

// leave removes a process.
func (t *table) leave(c *client) {
	if c.left {
		return
	}
	c.left = true
	delete(t.clients, c)
	for _, w := range c.wants {
		t.drop(w)
	}
	for ticket := range c.tickets {
		delete(t.tickets, shownBy{ticket, c.self})
	}
	for key := range c.names {
		t.unname(c, key)
	}
	c.give(c.cost)
	for _, f := range c.next {
		f()
	}
}
