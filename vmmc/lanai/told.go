package lanai

import (
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/myrinet/untaken"
)

// Limits of the events that wait until a process handles them. A process may be idle for a long
// time while other processes continue to send.
const (
	mostTold  = 1 << 20 // bytes of messages, in addition to the guaranteed part of each sender that is not a stranger
	mostNotes = 4096    // notifications, in addition to maxNotes of each process
	toldCost  = 256     // bytes that a message counts in addition to its body
)

// newTold returns an account that limits the events that wait until a process handles them: messages and
// notifications from other processes.
func newTold() untaken.Account {
	return untaken.Account{Most: mostTold, Notes: mostNotes, OwnNotes: maxNotes}
}

// cost returns the cost of a message.
func cost(body []byte) int { return toldCost + len(body)*4/3 }

// relation describes which messages a process and a remote process have exchanged.
type relation uint8

const (
	stranger   relation = iota // neither process has sent a message to the other
	heard                      // the remote process has sent a message; this process has sent none
	acquainted                 // this process has sent a message, or granted memory
	unwanted                   // a stranger, and the process has the maximum number of relations
)

// hearMessage passes a received message to the process. It returns false if there is no room for the
// message. The driver then reports to the sender that the process does not exist, which ends their
// connection.
func (s *seat) hearMessage(e event) bool {
	is := s.relation(e.from)
	if len(e.body) > 0 && e.body[0] == sayBye {
		switch {
		case is != acquainted && is != heard: // the sender still waits until this process confirms the end of the connection
			s.h.prog.count.Untold++
			return false
		case s.told.End(e.from, cost(e.body)):
			s.tell(e)
		default: // a bye of this sender already waits; one confirmation is enough for both
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

// hearNote notifies the process that a remote process has written to a frame.
func (s *seat) hearNote(frame uint32, from ethertype.Addr) {
	if !s.told.Note(from) {
		s.h.prog.count.Untold++
		return
	}
	s.tell(event{kind: eventNote, frame: frame})
}

// hearRefusal notifies the process that a node has refused a write. If there is no room, the process
// still learns of the refusal: the write completes with an error.
func (s *seat) hearRefusal(from ethertype.Addr, frame uint32) {
	if !s.told.Message(from, cost(nil), true) {
		s.h.prog.count.Untold++
		return
	}
	s.tell(event{kind: eventRefused, from: from, frame: frame})
}
