package vmmc

import (
	"context"
	"sync/atomic"

	"github.com/bobnet-go/bobnet/internal/fifo"
)

// Notification describes a message with a notification. Its data are in the export's memory.
type Notification struct {
	Export *Export
	From   Peer // the sender
}

// Handler runs once for each message with a notification, after the message's data are in memory.
// Handlers of a process never run at the same time, and never while notifications are blocked. They
// run on a goroutine that waits or polls in the process, even if its wait has just ended. If there is
// no such goroutine, they run on a goroutine of the package. In virtual time the package has no
// goroutines. A handler may do anything except wait for the next notification. A handler that blocks
// delays only the handlers behind it and the call that it runs in. A panic is logged and counted.
type Handler func(n Notification)

// noteQueue decides which notification is handled next, and when. It follows SBL's rules
// (reference, section 4): calls of block nest, and notifications are queued until each has been
// undone by unblock. Notifications are also blocked while a handler runs, and the handler cannot
// unblock them.
type noteQueue[T any] struct {
	blocks  int // calls of block not yet undone by unblock
	running bool
	waiting fifo.Queue[T]
}

// push queues a notification.
func (q *noteQueue[T]) push(n T) { q.waiting.Push(n) }

// len returns the number of queued notifications.
func (q *noteQueue[T]) len() int { return q.waiting.Len() }

// ready reports whether a handler may run now.
func (q *noteQueue[T]) ready() bool { return !q.running && q.blocks == 0 && q.len() > 0 }

// begin dequeues the next notification. Its handler runs until end.
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

// drop removes the notifications for which gone returns true.
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

// spinLook is the number of polls after which Spin checks its context and the handlers.
const spinLook = 64

// Spin polls a word until it differs from old, and returns its value. It drives the network
// and never sleeps: its latency is the lowest, but it occupies a processor. The word is in an
// exported buffer (Word), or is a completion word. When Spin returns, all data sent before the
// word, and the rest of the word's message, are visible. If another process serves the card
// (Config.Card), Spin is WaitWord: that process may need the processor.
func (p *Process) Spin(ctx context.Context, word *uint32, old uint32) (uint32, error) {
	if p.via.Apart() {
		return p.WaitWord(ctx, word, old)
	}
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

// over returns the error that ends a polling loop, or nil. In virtual time, no time passes while a
// process only polls.
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

// WaitWord is like Spin, but sleeps if nothing arrives for a while, and runs handlers.
func (p *Process) WaitWord(ctx context.Context, word *uint32, old uint32) (uint32, error) {
	if now := atomic.LoadUint32(word); now != old {
		return now, nil
	}
	p.mu.Lock()
	defer p.unlock()
	err := p.await(ctx, func() bool { return atomic.LoadUint32(word) != old })
	return atomic.LoadUint32(word), err
}

// WaitNotification blocks until a handler has run since the call, or ctx ends. WaitNotification
// misses a notification that is handled just before the call. A program that must not miss one
// counts notifications in its handler, and waits with WaitWord or Await.
func (p *Process) WaitNotification(ctx context.Context) error {
	p.mu.Lock()
	defer p.unlock()
	before := p.handled
	return p.await(ctx, func() bool { return p.handled != before })
}

// BlockNotifications prevents handlers from running until UnblockNotifications has been called the
// same number of times (SBL_BlockNotifications). Notifications are queued meanwhile. If the queue
// is full, further ones wait at their senders.
func (p *Process) BlockNotifications() {
	p.mu.Lock()
	p.notes.block()
	p.unlock()
}

// UnblockNotifications undoes one call of BlockNotifications (SBL_UnblockNotifications). It returns
// an error if there is none to undo. In a handler it returns ErrNotInHandler, because it cannot
// undo the handler's automatic block.
func (p *Process) UnblockNotifications() error {
	p.mu.Lock()
	defer p.unlock()
	err := p.notes.unblock()
	p.via.Ring()
	return err
}

// Await blocks until done returns true, or ctx ends. It is WaitWord for conditions on more than one
// word. done reads memory and must not call the process. It is called again after each arrival, and
// after Wake.
func (p *Process) Await(ctx context.Context, done func() bool) error {
	if done() {
		return nil
	}
	p.mu.Lock()
	defer p.unlock()
	return p.await(ctx, done)
}

// Wake makes all Await calls in the process check again. A program calls it after it has changed
// memory that the done function of an Await reads.
func (p *Process) Wake() { p.via.Ring() }
