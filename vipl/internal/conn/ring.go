package conn

import (
	"github.com/bobnet-go/bobnet/internal/fifo"
	"github.com/bobnet-go/bobnet/internal/progress"
)

// Ring holds the entries of a completion queue. It has a place for each completion, and for each
// bound listener. It grows on demand: a queue is as large as all its work queues together, which
// are rarely full at the same time.
type Ring struct {
	shared  *Shared
	owner   RingOwner
	Gate    progress.Gate
	entries fifo.Queue[Entry]
	Size    int // places for completions
	notes   int // places for notices
	notices int // entries of notices
	closed  int // entries of closed connections

	Handlers int  // handlers that wait for entries
	attended bool // a function is called when entries arrive
	alerted  bool // it was called, or will be, since the last look
}

// RingOwner is the completion queue of a ring.
type RingOwner interface {
	// Tell passes an entry to a waiting handler; c is nil for an entry of a notice.
	Tell(c *Conn, recv bool)
	// Overrun reports that an entry of c is lost.
	Overrun(c *Conn)
	// Alert calls the function that attends the queue.
	Alert()
}

// Entry belongs to a work queue or to a notice; the other field is nil.
type Entry struct {
	Conn   *Conn
	Notice *Notice
	Recv   bool
}

// Notice is a source of entries that belong to no work queue. It has at most one entry in the ring,
// which stands for all its unreported events.
type Notice struct {
	Owner  any
	listed bool // it has an entry
	untold int  // unreported events
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

// Next removes and returns the oldest entry. It skips entries of closed connections, and of notices
// whose events were taken meanwhile.
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

// unlist invalidates the entries of c, which is closed. They stay in the ring until their turn
// comes, or until they are half of its entries. Closing connections thus takes time in proportion
// to their own entries, whatever the number of others.
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

// Init initializes a ring of size entries for owner.
func (r *Ring) Init(sh *Shared, owner RingOwner, size int) {
	r.shared, r.owner, r.Size = sh, owner, size
}

// Bind reserves a place for a notice.
func (r *Ring) Bind() { r.notes++ }

// Unbind discards the unreported events of l, and its place.
func (r *Ring) Unbind(l *Notice) {
	if l.listed {
		r.entries.Keep(func(e *Entry) bool { return e.Notice != l })
		r.notices--
	}
	r.notes--
	l.untold, l.listed = 0, false
}

// Empty reports whether there are no entries to take.
func (r *Ring) Empty() bool { return r.entries.Len() == r.closed }

// Bound returns the number of notices with a place.
func (r *Ring) Bound() int { return r.notes }

// Len returns the number of entries, including those of closed connections.
func (r *Ring) Len() int { return r.entries.Len() }

// Looked makes the next entry call the attending function again.
func (r *Ring) Looked() { r.alerted = false }

// Attend switches the calls of the attending function on or off.
func (r *Ring) Attend(on bool) {
	r.attended, r.alerted = on, false
	if !r.Empty() {
		r.Alert()
	}
}

// Alert calls the attending function, unless it was called and has not looked since.
func (r *Ring) Alert() {
	if r.attended && !r.alerted {
		r.alerted = true
		r.owner.Alert()
	}
}

// AttemptEnded reports that an attempt to connect has ended. This makes no entry.
func (r *Ring) AttemptEnded() {
	r.Gate.Open(r.shared.eng)
	if r.attended {
		r.owner.Alert()
	}
}

// Announce reports an event of l.
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

// consume handles the removal of a notice's entry. It reports whether the entry stands for an
// event, and lists l again for the next event.
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

// Limit reduces the number of unreported events to at most most.
func (l *Notice) Limit(most int) { l.untold = min(l.untold, most) }
