package daemon

import (
	"testing"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/vmmc/internal/directory"
	"github.com/bobnet-go/bobnet/vmmc/internal/provider"
)

// silent is a world in which nothing happens.
type silent struct{ bytes int }

func (s *silent) tell(_ *client, m directory.Message) { s.bytes += len(m.Append(nil)) }
func (s *silent) gone(*client) bool                   { return false }
func (s *silent) advertise(string, ethertype.Addr)    {}
func (s *silent) withdraw(string)                     {}
func (s *silent) seek(*want)                          {}
func (s *silent) ask(*proof)                          {}
func (s *silent) report(*client, ethertype.MAC)       {}
func draw() (t provider.Ticket)                       { t[0] = 1; return t }
func tableOfNothing() *table                          { return newTable(ethertype.MAC{2}, &silent{}, draw) }
func entered(t *table, process uint32, uid uint32) *client {
	c := t.connect(1, uid, nil)
	m := directory.Message{Kind: directory.Enter, Seq: 1}
	m.Self = provider.Identity{Addr: ethertype.Addr{MAC: t.node, Port: uint16(process)}, Process: process}
	t.hear(c, &m)
	return c
}

// FuzzMessages: whatever a process says, in messages of 32 bytes of the input and zeros
// behind them, harms the daemon as little as another process, and nothing of it is left
// when it has gone.
func FuzzMessages(f *testing.F) {
	for kind := range byte(20) {
		f.Add([]byte{kind, 0, 0, 0, 0, 1, 0, 0, 0, 7})
	}
	f.Fuzz(func(t *testing.T, said []byte) {
		all := tableOfNothing()
		honest := entered(all, 1, 5)
		c := all.connect(2, 6, nil)
		for len(said) > 0 {
			b := make([]byte, directory.MaxMessage)
			n := copy(b[:32], said)
			said = said[n:]
			m, ok := directory.Parse(b[:directory.MaxMessage-int(b[1]&1)*400])
			if again := m.Append(nil); ok {
				if back, ok := directory.Parse(again); !ok || back != m {
					t.Fatalf("%+v is %+v when it is written and read", m, back)
				}
			}
			if !ok || !all.hear(c, &m) {
				break
			}
		}
		all.leave(c)
		if !honest.entered || honest.left || len(all.clients) != 1 || len(all.names) != 2 || len(all.waiting)+len(all.tickets) != 0 {
			t.Fatalf("%d clients, %d names, %d wants, %d tickets are left", len(all.clients), len(all.names), len(all.waiting), len(all.tickets))
		}
	})
}

// FuzzQuestion: whatever a node asks, it is told nothing of others' tickets, and reports
// nobody's death but its own processes'.
func FuzzQuestion(f *testing.F) {
	self, asker := ethertype.MAC{2, 1}, ethertype.MAC{2, 2}
	for what := range byte(4) {
		q := question{what: what, who: provider.Identity{Addr: ethertype.Addr{MAC: self}}}
		f.Add(q.bytes())
		q.who.Addr.MAC = asker
		f.Add(q.bytes())
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		q, ok := parseQuestion(b, asker, self)
		if ok && (q.what == died) != (q.who.Addr.MAC == asker) {
			t.Fatalf("%+v is taken", q)
		}
		if ok && string(q.bytes()) != string(b) {
			t.Fatalf("%x is %x when it is read and written", b, q.bytes())
		}
		uid, known, ok := parseAnswer(b)
		if ok && string(putAnswer(known, uid)) != string(b) {
			t.Fatalf("%x is read as %d, %v", b, uid, known)
		}
	})
}
