package lanai

import (
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/myrinet/untaken"
)

// What waits until a process takes it in, at the most. A process may do nothing for long, and others may send
// as much as they like meanwhile.
const (
	mostTold  = 1 << 20 // bytes of messages, beside what each process that is no stranger may have in any case
	mostNotes = 4096    // notifications, beside maxNotes of each process
	toldCost  = 256     // bytes that a message counts beside its body
)

// newTold returns the account of what a process has been told of others and has not taken in yet.
func newTold() untaken.Account {
	return untaken.Account{Most: mostTold, Notes: mostNotes, OwnNotes: maxNotes}
}

// cost returns what a message counts.
func cost(body []byte) int { return toldCost + len(body)*4/3 }

// relation is how a process is related to another one.
type relation uint8

const (
	stranger   relation = iota // neither has sent anything to the other one
	heard                      // only the other one has sent something
	acquainted                 // this process has sent something, or given memory to write to
	unwanted                   // a stranger, where the process has as many relations as it may
)

// hearMessage tells a process what another one says. It reports false if the other one is to be told that the
// process is not there: there is no room for the message, and what the two have to do with each other ends.
func (s *seat) hearMessage(e event) bool {
	is := s.relation(e.from)
	if len(e.body) > 0 && e.body[0] == sayBye {
		switch {
		case is != acquainted && is != heard: // one that has ended waits for an answer all the same
			s.h.prog.count.Untold++
			return false
		case s.told.End(e.from, cost(e.body)):
			s.tell(e)
		default: // the answer to the one that waits is for both
			s.h.prog.count.Untold++
		}
		return true
	}
	if is == unwanted {
		s.h.prog.count.Unsaid++
		return false
	}
	if s.told.Message(e.from, cost(e.body), is != acquainted) {
		s.tell(e)
		return true
	}
	s.h.prog.count.Untold++
	if e.body = []byte{sayBye, byte(byeNobody)}; is != stranger && s.told.End(e.from, cost(e.body)) {
		s.h.disconnected(&envelope{port: s.port, from: e.id})
		s.tell(e)
	}
	return false
}

// hearNote tells a process that another one has written to a frame.
func (s *seat) hearNote(frame uint32, from ethertype.Addr) {
	if !s.told.Note(from) {
		s.h.prog.count.Untold++
		return
	}
	s.tell(event{kind: eventNote, frame: frame})
}

// hearRefusal tells a process that a node has refused a write. If there is no room, the end of the write says so, too.
func (s *seat) hearRefusal(from ethertype.Addr, frame uint32) {
	if !s.told.Message(from, cost(nil), true) {
		s.h.prog.count.Untold++
		return
	}
	s.tell(event{kind: eventRefused, from: from, frame: frame})
}
