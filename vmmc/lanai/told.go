package lanai

import (
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/fifo"
)

// What waits until a process takes it in, at the most. A process may do nothing for long, and others may send
// as much as they like meanwhile.
const (
	mostTold  = 1 << 20      // bytes of messages, beside toldOwn of each process
	toldPart  = 4            // one other process may have this part of the room that is left
	toldOwn   = 2 << 10      // bytes that each process that is no stranger may have in any case
	mostNoted = 2 * maxNotes // notifications from one other process; one that keeps to the protocol sends maxNotes
	mostNotes = 4096         // notifications from all, beside maxNotes of each process
	toldCost  = 256          // bytes that a message counts beside its body
)

// told is what a process has been told of others and has not taken in yet. The host's lock guards it.
type told struct {
	bytes, notes int
	by           map[ethertype.Addr]portion
	order        fifo.Queue[charge]
}

// portion is the part of one other process.
type portion struct {
	bytes, notes int
	bye          bool // it ends by a bye
}

// charge is a message, or a notification if it has no bytes.
type charge struct {
	from  ethertype.Addr
	bytes int
}

// cost returns what a message counts.
func cost(body []byte) int { return toldCost + len(body)*4/3 }

// message counts a message if there is room for it. Strangers may have half of the room.
func (t *told) message(from ethertype.Addr, body []byte, stranger bool) bool {
	room, n := mostTold-t.bytes, cost(body)
	if stranger {
		room -= mostTold / 2
	}
	x := t.by[from]
	if x.bytes+n > room/toldPart && (stranger || x.bytes+n > toldOwn) {
		return false
	}
	x.bye = false
	t.add(x, charge{from, n})
	return true
}

// bye counts the message that nothing more comes, for which there is always room, once.
func (t *told) bye(from ethertype.Addr, body []byte) bool {
	x := t.by[from]
	if x.bye {
		return false
	}
	x.bye = true
	t.add(x, charge{from, cost(body)})
	return true
}

// note counts a notification if there is room for it.
func (t *told) note(from ethertype.Addr) bool {
	x := t.by[from]
	if x.notes >= mostNoted || x.notes >= maxNotes && t.notes >= mostNotes {
		return false
	}
	t.add(x, charge{from: from})
	return true
}

func (t *told) add(x portion, c charge) {
	if x.bytes, t.bytes = x.bytes+c.bytes, t.bytes+c.bytes; c.bytes == 0 {
		x.notes, t.notes = x.notes+1, t.notes+1
	}
	if t.by == nil {
		t.by = map[ethertype.Addr]portion{}
	}
	t.by[c.from] = x
	t.order.Push(c)
}

// took notes that the process has taken in the oldest n.
func (t *told) took(n int) {
	for ; n > 0 && t.order.Len() > 0; n-- {
		c := t.order.Pop()
		x := t.by[c.from]
		if x.bytes, t.bytes = x.bytes-c.bytes, t.bytes-c.bytes; c.bytes == 0 {
			x.notes, t.notes = x.notes-1, t.notes-1
		}
		if t.by[c.from] = x; x.bytes+x.notes == 0 {
			delete(t.by, c.from)
		}
	}
}

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
		case s.told.bye(e.from, e.body):
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
	if s.told.message(e.from, e.body, is != acquainted) {
		s.tell(e)
		return true
	}
	s.h.prog.count.Untold++
	if e.body = []byte{sayBye, byte(byeNobody)}; is != stranger && s.told.bye(e.from, e.body) {
		s.h.disconnected(&envelope{port: s.port, from: e.id})
		s.tell(e)
	}
	return false
}

// hearNote tells a process that another one has written to a frame.
func (s *seat) hearNote(frame uint32, from ethertype.Addr) {
	if !s.told.note(from) {
		s.h.prog.count.Untold++
		return
	}
	s.tell(event{kind: eventNote, frame: frame})
}

// hearRefusal tells a process that a node has refused a write. If there is no room, the end of the write says so, too.
func (s *seat) hearRefusal(from ethertype.Addr, frame uint32) {
	if !s.told.message(from, nil, true) {
		s.h.prog.count.Untold++
		return
	}
	s.tell(event{kind: eventRefused, from: from, frame: frame})
}
