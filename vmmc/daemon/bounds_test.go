package daemon

import (
	"encoding/binary"
	"testing"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/vmmc/internal/directory"
	"github.com/bobnet-go/bobnet/vmmc/internal/provider"
)

// idle is a world that notes what it is to do.
type idle struct {
	told []directory.Message
	asks []*proof
}

func (w *idle) tell(_ *client, m directory.Message)     { w.told = append(w.told, m) }
func (w *idle) gone(*client) bool                       { return false }
func (w *idle) advertise(string, ethertype.Addr)        {}
func (w *idle) withdraw(string)                         {}
func (w *idle) seek(*want)                              {}
func (w *idle) ask(q *proof)                            { w.asks = append(w.asks, q) }
func (w *idle) report(ethertype.MAC, provider.Identity) {}

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
