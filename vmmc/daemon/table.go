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

// The table is what a daemon knows and decides, without sockets, clocks, locks and
// goroutines: events come in by its methods, and what is to be done about them goes out by
// world.

// world is what a table has done. None of it blocks, or calls the table back before it
// returns.
type world interface {
	// tell sends a process a message.
	tell(c *client, m directory.Message)
	// gone reports whether a process has ended although its client is still here.
	gone(c *client) bool
	// advertise has the segment find addr by a name, until withdraw.
	advertise(name string, addr ethertype.Addr)
	withdraw(name string)
	// seek asks the segment for w.key, for table.found, until w.stop is called if it is set.
	seek(w *want)
	// ask finds out about a ticket at the node that it comes from, for table.answered.
	ask(q *proof)
	// report tells the daemon of a node of the death of c, and calls table.reported then.
	report(c *client, node ethertype.MAC)
}

// Bounds of what one process may have open.
const (
	maxWants   = 1 << 16
	maxTickets = 1 << 16
	maxExports = 1 << 20
	maxNodes   = 1 << 14
	maxProofs  = 1 << 10 // more have no user
)

// Bounds of what all processes of one user, but root, may have open, and those of all users. Costs
// are about the bytes that each thing takes, here and in the daemon's NIC.
const (
	userProcesses = 1 << 12
	userMemory    = 64 << 20
	allMemory     = 256 << 20

	costExport = 128
	costName   = 1 << 10 // that the segment is told
	costWant   = 4 << 10
	costTicket = 256
	costNode   = 96
	costBehind = 1 << 10
	costProof  = 512 // until it is answered
	costReport = 512 // until the other daemon knows, or does not answer
)

// client is a process.
type client struct {
	pid  int32
	uid  uint32
	conn any // the world's own

	entered bool
	left    bool // it is of no interest any more
	over    bool // its user has too much open
	deaf    bool // it does not take what it is told, and is left
	cost    int64
	gate    *admission.Gate[uint32]
	self    provider.Identity
	scope   string
	exports map[uint32]struct{}
	words   map[string]uint32
	names   map[string]struct{} // by which it is to be found
	wants   map[uint32]*want
	tickets map[provider.Ticket]ethertype.Addr // whom they are for
	met     map[ethertype.MAC]struct{}         // nodes that are to hear of its death
	proofs  int                                // without an answer
	next    []func()                           // what waits for its end
	behind  []directory.Message                // if not nil, it waits itself: what it has said
}

// want is a Match without an answer.
type want struct {
	c    *client
	seq  uint32
	key  string
	stop func() // the world's own
	done bool
}

// proof is a Prove without an answer.
type proof struct {
	c      *client
	seq    uint32
	ticket provider.Ticket
	from   provider.Identity // who has shown it
	paid   bool              // costProof is counted
}

// shownBy is a ticket and who shows it: who gets one from another process, or sees it, and
// says that it is its own, takes nothing from that.
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

// Stats counts what a daemon has done since it was started.
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

// take counts what a process opens for its user, and reports whether he may have that. A process
// that is over the bound is left.
func (c *client) take(cost int64) bool {
	if !c.gate.Take(c.uid, cost) {
		c.over = true
		return false
	}
	c.cost += cost
	return true
}

// give gives back what take has counted.
func (c *client) give(cost int64) {
	c.gate.Give(c.uid, cost)
	c.cost -= cost
}

// connect makes a process known that has said nothing yet.
func (t *table) connect(pid int32, uid uint32, conn any) *client {
	c := &client{pid: pid, uid: uid, conn: conn, gate: t.gate, exports: map[uint32]struct{}{}, words: map[string]uint32{}, names: map[string]struct{}{},
		wants: map[uint32]*want{}, tickets: map[provider.Ticket]ethertype.Addr{}, met: map[ethertype.MAC]struct{}{}}
	t.clients[c] = struct{}{}
	return c
}

// hear acts upon a message. It returns false if the process breaks the rules and is to be
// left.
func (t *table) hear(c *client, m *directory.Message) bool {
	if c.left {
		return false
	}
	if c.behind != nil && m.Kind != directory.Leave { // it is not in yet
		c.behind = append(c.behind, *m)
		return len(c.behind) < maxExports && c.take(costBehind)
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

// outside answers a process that was not let in, or has not asked for it.
func (t *table) outside(c *client, m *directory.Message) bool {
	switch m.Kind {
	case directory.Match:
		t.world.tell(c, directory.Message{Kind: directory.Refused, Seq: m.Seq, Text: "the process was not let in under its number"})
	case directory.Prove:
		c.proofs++
		t.answered(&proof{c: c, seq: m.Seq}, 0, false)
	}
	return true
}

// enter lets a process in under its number.
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
		return refuse("this is the daemon of %v, and the NIC of the process is %v: start one for that interface", t.node, m.Self.Addr.MAC)
	}
	if other := t.first(directory.NodeKey(m.Text, t.node, m.Self.Process)); other != nil {
		if t.world.gone(other) { // what it has said last is to be heard first
			c.behind = []directory.Message{*m}
			other.next = append(other.next, func() { t.goOn(c) })
			return true
		}
		return refuse("process %d of scope %q is there already: the system's process %d of user %d", m.Self.Process, m.Text, other.pid, other.uid)
	}
	c.entered, c.self, c.scope = true, m.Self, m.Text
	t.world.tell(c, directory.Message{Kind: directory.Entered, Seq: m.Seq})
	t.name(c, directory.NumberKey(c.scope, c.self.Process))
	t.name(c, directory.NodeKey(c.scope, t.node, c.self.Process))
	return true
}

// goOn hears what a process has said since it had to wait for another one's end.
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

// first returns who is found by a name here.
func (t *table) first(key string) *client {
	if all := t.names[key]; len(all) > 0 {
		return all[0]
	}
	return nil
}

// name has c found by a name, unless another process was before it.
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

// unname takes a name from c. Who has it next is found by it then.
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
		if _, has := c.exports[id]; !has && !c.take(costExport) {
			return false
		}
		c.exports[id] = struct{}{}
		return true
	}
	if _, has := c.words[word]; !has && !c.take(costName) {
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

// match answers at once if the exporter is of this node and known, and asks the segment
// otherwise, until it is one or the other.
func (t *table) match(c *client, m *directory.Message) bool {
	if c.wants[m.Seq] != nil || len(c.wants) >= maxWants || !c.take(costWant) {
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

// drop forgets a want.
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

// found answers a want, with a ticket for the exporter.
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

// fail answers a want whose exporter cannot be looked for.
func (t *table) fail(w *want, why error) {
	if w.done {
		return
	}
	t.drop(w)
	t.world.tell(w.c, directory.Message{Kind: directory.Refused, Seq: w.seq, Text: why.Error()})
}

// shown notes that c shows a ticket at an address, and nowhere else.
func (t *table) shown(c *client, ticket provider.Ticket, at ethertype.Addr) bool {
	if t.tickets[shownBy{ticket, c.self}] != nil || len(c.tickets) >= maxTickets || ticket == (provider.Ticket{}) || !c.meet(at.MAC) || !c.take(costTicket) {
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
	if _, known := c.met[node]; !known && (len(c.met) >= maxNodes || !c.take(costNode)) {
		return false
	}
	c.met[node] = struct{}{}
	return true
}

// whose returns the user of who has shown a ticket at an address. It is known if this
// daemon has given the ticket to that process, to be shown there.
func (t *table) whose(ticket provider.Ticket, from provider.Identity, at ethertype.Addr) (uid uint32, known bool) {
	c := t.tickets[shownBy{ticket, from}]
	if c == nil || c.tickets[ticket] != at {
		return 0, false
	}
	return c.uid, true
}

// answered takes what is known of a ticket.
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

// ended: a process has ended without saying so. Its own node and all nodes that it had to
// do with are told.
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

// reported: a report of the death of c has ended. It takes no lock.
func (t *table) reported(c *client) { t.gate.Give(c.uid, costReport) }

// died: another daemon says that a process of its node has.
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

// leave forgets a process.
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
