package vmmc

import "github.com/bobnet-go/bobnet/internal/fifo"

// Notification is what a handler gets: the data of a message lies in the export's memory.
type Notification struct {
	Export *Export
	From   Peer // who has sent it
}

// Handler runs when a message with a notification has come, once for each, after its data
// is in memory. Handlers of a process never run at the same time, and never while
// notifications are blocked. They run on a goroutine that waits or polls in the process, or
// on one of the package's own if none does; under virtual time there are no others. A
// handler may do everything but wait for the next notification; one that blocks holds up
// those behind it, and nothing else. If it panics, that is logged and counted.
type Handler func(n Notification)

// noteQueue says what is to be told, and when. SBL's rules (reference, section 4): the
// counter of blocks nests, what comes while it is not zero is queued, a handler runs with
// it raised by one, which it cannot undo.
type noteQueue[T any] struct {
	blocks  int // without the handler's
	running bool
	waiting fifo.Queue[T]
}

// push queues a notification.
func (q *noteQueue[T]) push(n T) { q.waiting.Push(n) }

// len returns how many are queued.
func (q *noteQueue[T]) len() int { return q.waiting.Len() }

// ready reports whether one may be told now.
func (q *noteQueue[T]) ready() bool { return !q.running && q.blocks == 0 && q.len() > 0 }

// begin takes the next one off; its handler runs until end.
func (q *noteQueue[T]) begin() T {
	q.running = true
	return q.waiting.Pop()
}

func (q *noteQueue[T]) end() { q.running = false }

func (q *noteQueue[T]) block() { q.blocks++ }

func (q *noteQueue[T]) unblock() error {
	switch {
	case q.blocks > 0:
		q.blocks--
		return nil
	case q.running:
		return ErrNotInHandler
	}
	return ErrNotBlocked
}

// drop forgets those for which gone is true.
func (q *noteQueue[T]) drop(gone func(T) bool) {
	q.waiting.Keep(func(n *T) bool { return !gone(*n) })
}
