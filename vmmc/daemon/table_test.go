package daemon

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/seedtest"
	"github.com/bobnet-go/bobnet/vmmc/internal/directory"
	"github.com/bobnet-go/bobnet/vmmc/internal/provider"
)

var seeds = seedtest.Flags("vmmc/daemon", 10).Each

// cluster is nodes with tables and processes, in a time of its own: what is to happen is a
// list, of which any next one may come.
type cluster struct {
	random  *rand.Rand
	nodes   map[ethertype.MAC]*node
	names   map[string]ethertype.Addr // of the segment, by their own nodes
	due     []func()
	draws   uint64
	now     int
	all     []*proc
	starts  uint64
	err     error
	proofs  int
	matches int
	deaths  int
}

// node is a node, its daemon, if it runs, and what is local to it.
type node struct {
	mac   ethertype.MAC
	table *table
	c     *cluster
}

// proc is a process, as its directory.Client would be.
type proc struct {
	node    *node
	id      provider.Identity
	uid     uint32
	alive   bool
	conn    *client // of the daemon that runs
	of      *table
	seq     uint32
	asked   map[uint32]directory.Message
	expects map[uint32]bool // of a Prove: the right answer
	whose   map[uint32]uint32
	tickets map[provider.Ticket]ethertype.Addr
	met     map[ethertype.MAC]struct{}
	heard   map[provider.Identity]int
}

func (c *cluster) later(f func()) { c.due = append(c.due, f) }

// step lets one of the things happen that are due.
func (c *cluster) step() {
	c.now++
	i := c.random.IntN(len(c.due))
	f := c.due[i]
	c.due = append(c.due[:i], c.due[i+1:]...)
	f()
}

func (c *cluster) failf(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf(format, args...)
	}
}

// The world of a node's table.

func (n *node) tell(cl *client, m directory.Message) {
	p, of := cl.conn.(*proc), n.table
	p.inbox(of, m)
}

func (n *node) gone(cl *client) bool { return !cl.conn.(*proc).alive }

func (n *node) advertise(name string, addr ethertype.Addr) { n.c.names[n.mac.String()+name] = addr }

func (n *node) withdraw(name string) { delete(n.c.names, n.mac.String()+name) }

func (n *node) seek(w *want) {
	of, stopped := n.table, false
	w.stop = func() { stopped = true }
	var look func()
	look = func() {
		if n.table != of || stopped {
			return
		}
		for _, other := range n.c.nodes {
			if addr, ok := n.c.names[other.mac.String()+w.key]; ok {
				of.found(w, addr)
				return
			}
		}
		n.c.later(look)
	}
	n.c.later(look)
}

func (n *node) ask(q *proof) {
	of, tries := n.table, 0
	var try func()
	try = func() {
		if n.table != of {
			return
		}
		if t := n.c.nodes[q.from.Addr.MAC].table; t != nil && n.c.random.IntN(3) > 0 { // others are lost
			if uid, known := t.whose(q.ticket, q.from, q.c.self.Addr); known {
				of.answered(q, uid, true)
				return
			}
		}
		if tries++; tries == 50 {
			of.answered(q, 0, false)
			return
		}
		n.c.later(try)
	}
	n.c.later(try)
}

func (n *node) report(c *client, to ethertype.MAC) {
	of, dead := n.table, c.self
	n.c.later(func() {
		of.reported(c)
		if t := n.c.nodes[to].table; t != nil {
			t.died(dead)
		}
	})
}

// inbox has the process hear what its daemon says, in order.
func (p *proc) inbox(of *table, m directory.Message) {
	if p.of != of || !p.alive {
		return
	}
	q, open := p.asked[m.Seq]
	switch m.Kind {
	case directory.Died:
		p.heard[m.Self]++
		p.node.c.heardOf(p, m.Self)
	case directory.Refused:
		p.node.c.failf("process %d is refused: %s", p.id.Process, m.Text)
	case directory.Matched:
		if delete(p.asked, m.Seq); open {
			p.node.c.matched(p, q, m)
		}
	case directory.Proven:
		if delete(p.asked, m.Seq); open {
			p.node.c.proofs++
			if want := p.expects[m.Seq]; m.Yes != want || want && m.UID != p.whose[m.Seq] {
				p.node.c.failf("a ticket is proven %v for user %d, want %v, %d", m.Yes, m.UID, want, p.whose[m.Seq])
			}
		}
	}
}

// say sends the daemon a message, if there is one.
func (p *proc) say(m directory.Message) {
	if p.of != nil && p.of == p.node.table && !p.of.hear(p.conn, &m) {
		p.node.c.failf("the daemon leaves process %d for a message of kind %d", p.id.Process, m.Kind)
	}
}

func (p *proc) ask(m directory.Message) uint32 {
	p.seq++
	m.Seq = p.seq
	p.asked[m.Seq] = m
	p.say(m)
	return m.Seq
}

// connect is what a process does when its node has a new daemon.
func (p *proc) connect() {
	p.of = p.node.table
	p.conn = p.of.connect(int32(p.id.Process), p.uid, p)
	p.say(directory.Message{Kind: directory.Enter, Self: p.id})
	p.say(directory.Message{Kind: directory.Export, ID: 1})
	for node := range p.met {
		p.say(directory.Message{Kind: directory.Met, Addr: ethertype.Addr{MAC: node}})
	}
	for t, addr := range p.tickets {
		p.say(directory.Message{Kind: directory.Shown, Ticket: t, Addr: addr})
	}
	for _, m := range p.asked {
		p.say(m)
	}
}

// matched has the importer show its ticket, and others misuse it.
func (c *cluster) matched(p *proc, q, m directory.Message) {
	c.matches++
	p.tickets[m.Ticket] = m.Addr
	p.met[m.Addr.MAC] = struct{}{}
	var exporter *proc
	for _, x := range c.all {
		if x.id.Addr == m.Addr {
			exporter = x
		}
	}
	if exporter == nil || exporter.id.Process != q.Self.Process {
		c.failf("process %d is said to be at %v", q.Self.Process, m.Addr)
		return
	}
	c.later(func() {
		if !p.alive || !exporter.alive {
			return
		}
		exporter.met[p.node.mac] = struct{}{}
		exporter.say(directory.Message{Kind: directory.Met, Addr: p.id.Addr})
		forged, thief, elsewhere := m.Ticket, p.id, c.all[c.random.IntN(len(c.all))]
		forged[3] ^= 1
		thief.Incarnation++
		exporter.prove(forged, p.id, false, 0)
		exporter.prove(m.Ticket, thief, false, 0)
		if elsewhere != exporter && elsewhere.alive {
			elsewhere.prove(m.Ticket, p.id, false, 0)
		}
	})
}

func (p *proc) prove(t provider.Ticket, from provider.Identity, want bool, uid uint32) {
	m := directory.Message{Kind: directory.Prove, Ticket: t, Self: from}
	p.expects[p.seq+1], p.whose[p.seq+1] = want, uid
	p.ask(m)
}

// heardOf: only who has ended is said to have.
func (c *cluster) heardOf(p *proc, dead provider.Identity) {
	c.deaths++
	for _, x := range c.all {
		if x.id == dead && x.alive {
			c.failf("process %d hears that %v has died, which lives", p.id.Process, dead)
		}
	}
}

func (c *cluster) start(number uint32) *proc {
	macs := []ethertype.MAC{{2, 1}, {2, 2}, {2, 3}}
	n := c.nodes[macs[int(number)%len(macs)]] // a number stays on its node
	c.starts++
	p := &proc{node: n, uid: uint32(c.random.IntN(4)), alive: true, asked: map[uint32]directory.Message{}, expects: map[uint32]bool{}, whose: map[uint32]uint32{},
		tickets: map[provider.Ticket]ethertype.Addr{}, met: map[ethertype.MAC]struct{}{}, heard: map[provider.Identity]int{},
		id: provider.Identity{Addr: ethertype.Addr{MAC: n.mac, Port: uint16(c.starts)}, Process: number, Incarnation: c.starts}}
	c.all = append(c.all, p)
	if n.table != nil {
		p.connect()
	}
	return p
}

// kill ends a process; its daemon notices later.
func (c *cluster) kill(p *proc) {
	p.alive = false
	of, conn := p.of, p.conn
	c.later(func() {
		if of != nil && of == p.node.table {
			of.ended(conn)
		}
	})
}

func (n *node) run() {
	n.table = newTable(n.mac, n, func() (t provider.Ticket) {
		n.c.draws++
		binary.BigEndian.PutUint64(t[:], n.c.draws)
		return t
	})
	for _, p := range n.c.all {
		if p.node == n && p.alive {
			n.c.later(func() {
				if p.alive && n.table != nil && p.of != n.table {
					p.connect()
				}
			})
		}
	}
}

// stop ends a daemon as kill -9 does: its names go with it.
func (n *node) stop() {
	n.table = nil
	for name := range n.c.names {
		if name[:len(n.mac.String())] == n.mac.String() {
			delete(n.c.names, name)
		}
	}
}

// TestTable: processes and daemons of three nodes come and go in any order. Each import
// finds its exporter, users are proven of those whose ticket is shown by the right process
// at the right one and of no other, only the dead are said to have died, and nothing is
// kept of those who have gone.
func TestTable(t *testing.T) {
	runs, matches, proofs := 0, 0, 0
	seeds(t, 200, func(seed uint64) error {
		c := &cluster{random: rand.New(rand.NewPCG(seed, 1)), nodes: map[ethertype.MAC]*node{}, names: map[string]ethertype.Addr{}}
		for i := range 3 {
			n := &node{mac: ethertype.MAC{2, byte(i + 1)}, c: c}
			c.nodes[n.mac] = n
			n.run()
		}
		living := map[uint32]*proc{}
		for range 300 {
			c.operate(living)
			for range c.random.IntN(4) {
				if len(c.due) > 0 {
					c.step()
				}
			}
			if c.err != nil {
				return c.err
			}
		}
		err := c.finish(living)
		runs, matches, proofs = runs+1, matches+c.matches, proofs+c.proofs
		return err
	})
	if runs >= 10 && (matches == 0 || proofs == 0) { // one alone may have none
		t.Errorf("%d seeds made %d matches and %d proofs", runs, matches, proofs)
	}
}

const numbers = 6

func (c *cluster) operate(living map[uint32]*proc) {
	number := uint32(c.random.IntN(numbers))
	p := living[number]
	n := c.nodes[ethertype.MAC{2, byte(c.random.IntN(3) + 1)}]
	switch what := c.random.IntN(20); {
	case p == nil:
		living[number] = c.start(number)
	case what < 2:
		c.kill(p)
		delete(living, number)
	case what == 2 && n.table != nil:
		n.stop()
	case what < 6 && n.table == nil:
		n.run()
	default:
		name := directory.Message{Kind: directory.Match, ID: 1}
		if name.Self.Process = uint32(c.random.IntN(numbers)); c.random.IntN(2) == 0 {
			name.Addr.MAC = ethertype.MAC{2, byte(name.Self.Process%3 + 1)}
		}
		p.ask(name)
	}
}

// finish has all daemons run, and everything answered; then all processes end.
func (c *cluster) finish(living map[uint32]*proc) error {
	for _, n := range c.nodes {
		if n.table == nil {
			n.run()
		}
	}
	for number := range uint32(numbers) {
		if living[number] == nil {
			living[number] = c.start(number)
		}
	}
	open := func() (n int) {
		for _, p := range living {
			n += len(p.asked)
		}
		return n
	}
	for k := 0; len(c.due) > 0 && c.err == nil; k++ {
		if c.step(); k > 1e6 {
			return fmt.Errorf("%d questions have no answer", open())
		}
	}
	if n := open(); n != 0 && c.err == nil {
		return fmt.Errorf("%d questions have no answer, and nothing is under way", n)
	}
	c.proveRight(living)
	c.spread(living)
	for _, n := range c.nodes {
		if t := n.table; c.err == nil && len(t.clients)+len(t.names)+len(t.waiting)+len(t.tickets) > 0 {
			c.failf("node %v keeps %d clients, %d names, %d wants, %d tickets", n.mac, len(t.clients), len(t.names), len(t.waiting), len(t.tickets))
		}
	}
	if c.err == nil && len(c.names) > 0 {
		c.failf("%d names are left after %d matches and %d proofs", len(c.names), c.matches, c.proofs)
	}
	return c.err
}

// proveRight: when all daemons run, the right ticket at the right place proves its user.
func (c *cluster) proveRight(living map[uint32]*proc) {
	for _, p := range living {
		for t, at := range p.tickets {
			for _, x := range living {
				if x.id.Addr == at {
					x.prove(t, p.id, true, p.uid)
				}
			}
		}
	}
	for len(c.due) > 0 && c.err == nil {
		c.step()
	}
}

// spread kills one process after another: all that had to do with it and live hear of it,
// and the others of its node, once.
func (c *cluster) spread(living map[uint32]*proc) {
	for number := range uint32(numbers) {
		p := living[number]
		delete(living, number)
		c.kill(p)
		for len(c.due) > 0 && c.err == nil {
			c.step()
		}
		for _, x := range living {
			_, had := p.met[x.node.mac]
			if want := had || x.node == p.node; want != (x.heard[p.id] == 1) || x.heard[p.id] > 1 {
				c.failf("process %d hears %d times of the death of process %d, had to do with it: %v", x.id.Process, x.heard[p.id], number, want)
			}
		}
	}
}

// idle is a world that notes what it is to do.
type idle struct {
	told    []directory.Message
	asks    []*proof
	reports int
}

func (w *idle) tell(_ *client, m directory.Message) { w.told = append(w.told, m) }
func (w *idle) gone(*client) bool                   { return false }
func (w *idle) advertise(string, ethertype.Addr)    {}
func (w *idle) withdraw(string)                     {}
func (w *idle) seek(*want)                          {}
func (w *idle) ask(q *proof)                        { w.asks = append(w.asks, q) }
func (w *idle) report(*client, ethertype.MAC)       { w.reports++ }

// hostileNode is a table and processes of it.
func hostileNode(t *testing.T, processes int) (*table, *idle, []*client) {
	w := &idle{}
	draws := uint64(0)
	mac := ethertype.MAC{2, 9}
	tab := newTable(mac, w, func() (k provider.Ticket) {
		draws++
		binary.BigEndian.PutUint64(k[:], draws)
		return k
	})
	all := make([]*client, processes)
	for i := range all {
		all[i] = tab.connect(int32(i), uint32(100+i), nil)
		self := provider.Identity{Addr: ethertype.Addr{MAC: mac, Port: uint16(1 + i)}, Process: uint32(i), Incarnation: 5}
		if !tab.hear(all[i], &directory.Message{Kind: directory.Enter, Self: self, Text: "s"}) || !all[i].entered {
			t.Fatal("a process is not let in")
		}
	}
	return tab, w, all
}

// TestTicketOfAnother: who has seen the ticket of another process, and tells a new daemon
// before that does that it is its own, neither has the daemon leave it nor takes its user.
func TestTicketOfAnother(t *testing.T) {
	tab, _, c := hostileNode(t, 2)
	owner, thief := c[0], c[1]
	ticket, at := provider.Ticket{1}, ethertype.Addr{MAC: ethertype.MAC{2, 7}, Port: 3}
	for _, who := range []*client{thief, owner} {
		if !tab.hear(who, &directory.Message{Kind: directory.Shown, Ticket: ticket, Addr: at}) {
			t.Fatalf("process %d is left", who.pid)
		}
	}
	for _, who := range c {
		if uid, known := tab.whose(ticket, who.self, at); !known || uid != who.uid {
			t.Errorf("the ticket that process %d shows is user %d's, known %v", who.pid, uid, known)
		}
	}
	tab.spend(thief, ticket)
	tab.leave(thief)
	if uid, known := tab.whose(ticket, owner.self, at); !known || uid != owner.uid {
		t.Errorf("it is lost with the other process: %d, %v", uid, known)
	}
	if tab.leave(owner); len(tab.tickets) != 0 {
		t.Errorf("%d tickets are left", len(tab.tickets))
	}
}

// TestProofsOfOne: a process that asks without end gets answers, and has a bounded number of
// questions asked.
func TestProofsOfOne(t *testing.T) {
	tab, w, c := hostileNode(t, 1)
	const n = 4 * maxProofs
	w.told = nil
	for i := range n {
		if !tab.hear(c[0], &directory.Message{Kind: directory.Prove, Seq: uint32(i), Ticket: provider.Ticket{1}}) {
			t.Fatal("the process is left")
		}
	}
	if len(w.asks) != maxProofs || len(w.told) != n-maxProofs {
		t.Fatalf("%d questions are asked, %d answered", len(w.asks), len(w.told))
	}
	for _, q := range w.asks {
		tab.answered(q, 7, true)
	}
	if len(w.told) != n || c[0].proofs != 0 {
		t.Errorf("%d answers, %d open", len(w.told), c[0].proofs)
	}
	if tab.hear(c[0], &directory.Message{Kind: directory.Prove, Ticket: provider.Ticket{1}}); len(w.asks) != maxProofs+1 {
		t.Error("it cannot ask again")
	}
}

// TestMetIsBounded: whoever answers look-ups, a process keeps no more nodes than it may.
func TestMetIsBounded(t *testing.T) {
	tab, _, c := hostileNode(t, 1)
	for i := range maxNodes + 100 {
		at := ethertype.Addr{Port: 1}
		binary.BigEndian.PutUint32(at.MAC[2:], uint32(i))
		w := &want{c: c[0], seq: uint32(i), key: "k"}
		c[0].wants[w.seq] = w
		tab.found(w, at)
	}
	if n := len(c[0].met); n > maxNodes {
		t.Errorf("%d nodes are kept", n)
	}
	if !c[0].meet(ethertype.MAC{}) {
		t.Error("a node that is known is one too many")
	}
}

// TestMemoryOfUser: the processes of one user, however many, have a bounded part of the daemon's
// memory; those of another go on, and what a process leaves is there again.
func TestMemoryOfUser(t *testing.T) {
	tab, _, c := hostileNode(t, 20)
	const user = 4321
	for _, wild := range c[:19] {
		wild.uid = user
	}
	had := 0
	for i, wild := range c[:19] {
		for id := uint32(0); !wild.left; id++ {
			if id == maxExports {
				t.Fatalf("process %d has %d exports", i, id)
			}
			if !tab.hear(wild, &directory.Message{Kind: directory.Export, ID: id}) {
				if !wild.over {
					t.Fatal("a process is left, and not for what its user has")
				}
				break
			}
			had++
		}
	}
	if most := userMemory / costExport; had == 0 || had > most {
		t.Errorf("the processes of a user have %d exports, want %d at most", had, most)
	}
	if !tab.hear(c[19], &directory.Message{Kind: directory.Export, ID: 1, Text: "honest"}) {
		t.Error("another user's process is left")
	}
	tab.leave(c[0])
	if !tab.hear(c[1], &directory.Message{Kind: directory.Export, ID: 1 << 30, Text: "again"}) {
		t.Error("what a process had is not there again")
	}
	for _, each := range c {
		tab.leave(each)
	}
	if !tab.gate.Take(user, userMemory) {
		t.Error("something is counted for processes that have left")
	}
}

// TestErrandsOfUser: what waits for other daemons because of one user has a bound, also after the processes
// have ended, and the user's processes go on.
func TestErrandsOfUser(t *testing.T) {
	const most = userMemory / costProof
	tab, w, c := hostileNode(t, most/maxProofs+10)
	const user = 4321
	honest := c[0]
	for _, wild := range c[1:] {
		wild.uid = user
		for i := range maxProofs {
			if !tab.hear(wild, &directory.Message{Kind: directory.Prove, Seq: uint32(i), Ticket: provider.Ticket{1}}) {
				t.Fatal("a process is left")
			}
		}
	}
	if len(w.asks) > most {
		t.Errorf("%d proofs of one user wait, want %d at most", len(w.asks), most)
	}
	before := len(w.asks)
	if tab.hear(honest, &directory.Message{Kind: directory.Prove, Ticket: provider.Ticket{1}}); len(w.asks) != before+1 {
		t.Error("another user's question is not asked")
	}
	for _, q := range w.asks {
		tab.answered(q, 0, false)
	}
	for i, wild := range c[1:] {
		for n := range 4096 {
			at := ethertype.Addr{}
			binary.BigEndian.PutUint32(at.MAC[2:], uint32(i<<16|n))
			if !tab.hear(wild, &directory.Message{Kind: directory.Met, Addr: at}) {
				t.Fatal("a process is left")
			}
		}
		tab.ended(wild)
	}
	if w.reports == 0 || w.reports > userMemory/costReport {
		t.Errorf("%d reports of one user's deaths wait, want %d at most", w.reports, userMemory/costReport)
	}
	for range w.reports {
		tab.reported(c[1])
	}
	if !tab.gate.Take(user, userMemory) {
		t.Error("something is counted afterwards")
	}
}

// TestCostsEnd: whatever a process opens and gives back, nothing is counted for it afterwards.
func TestCostsEnd(t *testing.T) {
	tab, _, c := hostileNode(t, 1)
	ticket, at := provider.Ticket{1}, ethertype.Addr{MAC: ethertype.MAC{2, 7}, Port: 3}
	for _, m := range []directory.Message{
		{Kind: directory.Export, ID: 1}, {Kind: directory.Export, ID: 1}, {Kind: directory.Export, ID: 2, Text: "w"}, {Kind: directory.Export, ID: 3, Text: "w"},
		{Kind: directory.Match, Seq: 9, Text: "nobody"}, {Kind: directory.Shown, Ticket: ticket, Addr: at},
		{Kind: directory.Unexport, ID: 1}, {Kind: directory.Unexport, ID: 1}, {Kind: directory.Unexport, ID: 3, Text: "w"}, {Kind: directory.Unexport, Text: "w"},
		{Kind: directory.Forget, Seq: 9}, {Kind: directory.Spent, Ticket: ticket}, {Kind: directory.Spent, Ticket: ticket},
	} {
		if !tab.hear(c[0], &m) {
			t.Fatalf("the process is left for %+v", m)
		}
	}
	if c[0].cost != costNode { // of the ticket's node
		t.Errorf("%d bytes are counted, want %d", c[0].cost, costNode)
	}
	tab.leave(c[0])
	if c[0].cost != 0 {
		t.Errorf("%d bytes are counted after it has left", c[0].cost)
	}
}

// TestErrands: the errands of one user, which do not end, leave places to another user, and those of two
// users take turns.
func TestErrands(t *testing.T) {
	var begun []func()
	const allPlaces, userPlaces = 128, 32
	e := errands[uint32]{places: allPlaces, each: userPlaces, spawn: func(f func()) { begun = append(begun, f) }}
	ran := map[uint32]int{}
	add := func(uid uint32, n int) {
		for range n {
			e.runWhenFree(uid, func() { ran[uid]++ })
		}
	}
	const wild, honest, third = 1, 2, 3
	add(wild, 1000)
	if len(begun) != userPlaces {
		t.Fatalf("%d errands of one user have begun, want %d", len(begun), userPlaces)
	}
	add(honest, 10)
	if len(begun) != userPlaces+10 {
		t.Fatalf("%d errands have begun, want %d", len(begun), userPlaces+10)
	}
	for uid := range uint32(8) {
		add(10+uid, userPlaces)
	}
	if len(begun) != allPlaces {
		t.Fatalf("%d errands of all users have begun, want %d", len(begun), allPlaces)
	}
	add(third, 1) // behind one errand of each other user at most
	for i := 0; ran[third] == 0 && i < len(begun); i++ {
		begun[i]()
		if i > allPlaces+20 {
			t.Fatalf("after %d errands another user's has not had its turn: %v", i, ran)
		}
	}
}

// TestErrandsEnd: all errands run once, and nothing is kept of them.
func TestErrandsEnd(t *testing.T) {
	var begun []func()
	const most = 600
	e := errands[uint32]{places: 128, each: 32, most: most, spawn: func(f func()) { begun = append(begun, f) }}
	ran, want := 0, 0
	for i := range 5000 {
		if e.runWhenFree(uint32(i%7), func() { ran++ }) {
			want++
		}
	}
	if n := e.of[0].waiting.Len(); n != most {
		t.Errorf("%d errands of one user wait, want %d", n, most)
	}
	for len(begun) > 0 {
		f := begun[len(begun)-1]
		begun = begun[:len(begun)-1]
		f()
	}
	if ran != want || e.running != 0 || len(e.of) != 0 || len(e.turns) != 0 {
		t.Errorf("%d errands have run, want %d, %d run, %d users, %d turns", ran, want, e.running, len(e.of), len(e.turns))
	}
}
