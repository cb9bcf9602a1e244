package conn

import (
	"github.com/bobnet-go/bobnet/internal/fifo"
	"github.com/bobnet-go/bobnet/internal/progress"
)

// Ring is the ring of a completion queue's entries: a place for each completion, and for
// each bound listener. It grows as entries need it, since a queue is made as large as its
// work queues are together, which are hardly ever full at once.
type Ring struct {
	shared  *Shared
	owner   RingOwner
	Gate    progress.Gate
	entries fifo.Queue[Entry]
	Size    int // how many are for completions
	notes   int // how many notices have a place of their own
	notices int // entries of notices
	closed  int // entries of connections that are closed: fewer than there are places

	Handlers int  // that wait for entries
	attended bool // somebody is called when entries have come
	alerted  bool // he has been, or will be, since the last look
}

// RingOwner is the completion queue of a ring.
type RingOwner interface {
	// Tell gives an entry to a handler that waits; c is nil if it is of a notice.
	Tell(c *Conn, recv bool)
	// Overrun tells that an entry of c is lost.
	Overrun(c *Conn)
	// Alert calls who attends the queue.
	Alert()
}

// Entry is of a work queue or of a notice; the other is nil.
type Entry struct {
	Conn   *Conn
	Notice *Notice
	Recv   bool
}

// Notice is a source of entries that are of no work queue. It has one in the ring at a
// time, which stands for all that is to be told of.
type Notice struct {
	Owner  any
	listed bool // has an entry
	untold int  // things that an entry is still to tell of
}

func (r *Ring) enqueue(c *Conn, recv bool) {
	if c.Closed { // its entries are being dropped
		return
	}
	if r.Handlers > 0 {
		r.owner.Tell(c, recv)
		return
	}
	if r.Used() == r.Size {
		r.shared.stats.CQOverruns++
		r.owner.Overrun(c)
		return
	}
	c.Queue(recv).listed++
	r.entries.Push(Entry{Conn: c, Recv: recv})
	r.Alert()
	r.Gate.Open(r.shared.eng)
}

// Used returns how many completions the queue holds.
func (r *Ring) Used() int { return r.entries.Len() - r.notices - r.closed }

// Next takes the oldest entry. Those of closed connections, and of notices whose things
// have been taken meanwhile, are passed over.
func (r *Ring) Next() (e Entry, ok bool) {
	for r.entries.Len() > 0 {
		e = r.entries.Pop()
		switch {
		case e.Notice != nil:
			if r.consume(e.Notice) {
				return e, true
			}
		case e.Conn.Closed:
			r.closed--
		default:
			e.Conn.Queue(e.Recv).listed--
			return e, true
		}
	}
	return Entry{}, false
}

// removeClosed removes the entries of closed connections.
func (r *Ring) removeClosed() {
	r.entries.Keep(func(e *Entry) bool { return e.Notice != nil || !e.Conn.Closed })
	r.closed = 0
}

// unlist gives up the entries of c, which is closed. They stay in their ring until
// their turn comes or half of what is there is of that kind. So the time that it takes
// to close connections is in proportion to their entries, however many others there are.
func (c *Conn) unlist() {
	for _, from := range []*Queue{&c.SQ, &c.RQ} {
		if from.cq != nil {
			from.cq.closed += from.listed
			from.listed = 0
		}
	}
	for _, r := range []*Ring{c.SQ.cq, c.RQ.cq} {
		if r != nil && r.closed > 0 && 2*r.closed >= r.entries.Len() {
			r.removeClosed()
		}
	}
}

// Init makes a ring of size entries, which its owner has.
func (r *Ring) Init(sh *Shared, owner RingOwner, size int) {
	r.shared, r.owner, r.Size = sh, owner, size
}

// Bind makes a place for a notice.
func (r *Ring) Bind() { r.notes++ }

// Unbind takes back what has been announced by l and not been told of, and its place.
func (r *Ring) Unbind(l *Notice) {
	if l.listed {
		r.entries.Keep(func(e *Entry) bool { return e.Notice != l })
		r.notices--
	}
	r.notes--
	l.untold, l.listed = 0, false
}

// Empty reports whether there is nothing to be taken.
func (r *Ring) Empty() bool { return r.entries.Len() == r.closed }

// Bound returns how many notices have a place.
func (r *Ring) Bound() int { return r.notes }

// Len returns how many entries the ring keeps, those of closed connections included.
func (r *Ring) Len() int { return r.entries.Len() }

// Looked has the next entry ring again.
func (r *Ring) Looked() { r.alerted = false }

// Attend has entries ring, or not.
func (r *Ring) Attend(on bool) {
	r.attended, r.alerted = on, false
	if !r.Empty() {
		r.Alert()
	}
}

// Alert calls who attends the ring, unless it has called him and he has not looked.
func (r *Ring) Alert() {
	if r.attended && !r.alerted {
		r.alerted = true
		r.owner.Alert()
	}
}

// AttemptEnded tells that an attempt to connect has ended, which makes no entry.
func (r *Ring) AttemptEnded() {
	r.Gate.Open(r.shared.eng)
	if r.attended {
		r.owner.Alert()
	}
}

// Announce tells that something has come to l.
func (r *Ring) Announce(l *Notice) {
	if r.Handlers > 0 {
		r.owner.Tell(nil, false)
		return
	}
	if l.untold++; !l.listed {
		r.list(l)
	}
	r.Gate.Open(r.shared.eng)
}

// list puts l into its place in the ring.
func (r *Ring) list(l *Notice) {
	l.listed = true
	r.notices++
	r.entries.Push(Entry{Notice: l})
	r.Alert()
}

// consume consumes the entry of a notice, which has been removed. It
// reports whether that stands for something, and lists l again for the next.
func (r *Ring) consume(l *Notice) bool {
	l.listed = false
	r.notices--
	if l.untold == 0 {
		return false
	}
	if l.untold--; l.untold > 0 {
		r.list(l)
	}
	return true
}

// Limit notes that so many things at the most are still to be told of.
func (l *Notice) Limit(most int) { l.untold = min(l.untold, most) }
