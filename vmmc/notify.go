package vmmc

import (
	"context"
	"sync/atomic"

	"github.com/bobnet-go/bobnet/internal/fifo"
)

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
	return errNotBlocked
}

// drop forgets those for which gone is true.
func (q *noteQueue[T]) drop(gone func(T) bool) {
	q.waiting.Keep(func(n *T) bool { return !gone(*n) })
}

// Poll drives the network once and runs the handlers that are due. It does not block.
func (p *Process) Poll() {
	p.via.Poll()
	p.mu.Lock()
	defer p.unlock() // a handler may end the goroutine
	for !p.closed && p.notes.ready() {
		p.runHandler()
	}
}

// spinLook is how many polls Spin makes between looks at its context and at handlers.
const spinLook = 64

// Spin polls a word until it differs from old, and returns its value. It drives the
// network and never sleeps: it has the lowest latency and occupies a processor. The word is in
// an exported buffer (Word), or is a completion word. When Spin returns, all data sent before
// the word, and the rest of its message, is visible.
func (p *Process) Spin(ctx context.Context, word *uint32, old uint32) (uint32, error) {
	for i := 1; ; i++ {
		if now := atomic.LoadUint32(word); now != old {
			return now, nil
		}
		p.via.Poll()
		if i%spinLook == 0 {
			p.Poll()
			if err := p.over(ctx); err != nil {
				return old, err
			}
		}
	}
}

// over returns why a loop has to end. Under virtual time nothing happens while a process
// only polls.
func (p *Process) over(ctx context.Context) error {
	p.mu.Lock()
	p.turn() // or the wait would end at once for what has been written before
	ended, seen := p.ended, p.via.Seen()
	p.unlock()
	switch {
	case ended:
		return ErrClosed
	case p.virtual:
		return p.via.Wait(ctx, 0, seen)
	}
	if err := p.via.Failed(); err != nil {
		return typed(err)
	}
	return ctx.Err()
}

// WaitWord does the same as Spin, but sleeps when nothing arrives for a while, and runs
// handlers.
func (p *Process) WaitWord(ctx context.Context, word *uint32, old uint32) (uint32, error) {
	if now := atomic.LoadUint32(word); now != old {
		return now, nil
	}
	p.mu.Lock()
	defer p.unlock()
	err := p.await(ctx, func() bool { return atomic.LoadUint32(word) != old })
	return atomic.LoadUint32(word), err
}

// WaitNotification blocks until a handler has run since the call, or ctx ends. Who must not
// miss one that comes just before counts in the handler, and waits with WaitWord or Await.
func (p *Process) WaitNotification(ctx context.Context) error {
	p.mu.Lock()
	defer p.unlock()
	before := p.handled
	return p.await(ctx, func() bool { return p.handled != before })
}

// BlockNotifications keeps handlers from running until UnblockNotifications has been
// called as often (SBL_BlockNotifications). What comes meanwhile is queued, and beyond what
// there is room for waits at its senders.
func (p *Process) BlockNotifications() {
	p.mu.Lock()
	p.notes.block()
	p.unlock()
}

// UnblockNotifications takes back one call of BlockNotifications
// (SBL_UnblockNotifications). In a handler, whose automatic block it cannot undo, it
// returns ErrNotInHandler; it fails too where there is nothing to take back.
func (p *Process) UnblockNotifications() error {
	p.mu.Lock()
	defer p.unlock()
	err := p.notes.unblock()
	p.via.Ring()
	return err
}

// Await blocks until done returns true, or ctx ends. It is WaitWord for what is more than a
// word: done looks at memory, calls nothing of the process, and is called again when
// something has come or after Wake.
func (p *Process) Await(ctx context.Context, done func() bool) error {
	if done() {
		return nil
	}
	p.mu.Lock()
	defer p.unlock()
	return p.await(ctx, done)
}

// Wake has all who wait in the process look again. A program calls it when it has changed
// what the done of an Await looks at.
func (p *Process) Wake() { p.via.Ring() }
