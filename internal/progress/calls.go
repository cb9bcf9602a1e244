package progress

import "github.com/bobnet-go/bobnet/internal/fifo"

// Calls
//
// A machine never calls the program while it holds the engine's lock. It queues the call, and the
// goroutine that next releases the lock runs it: a goroutine of the program, or the service. The
// calls of one queue run in order, one at a time. A called function may therefore call any function
// of its package, also one that blocks. Later calls in the queue wait meanwhile.

// callQueue holds all call queues of the engine. The caller must hold the engine's lock.
type callQueue struct {
	queues    []caller
	owed      int  // calls queued in queues whose runAll is not running
	byService bool // the service goroutine runs calls
}

type caller interface{ runAll() }

// due reports whether calls wait for a goroutine to run them.
func (q *callQueue) due() bool { return q.owed > 0 }

// Calls is a queue of calls, each described by a T. The caller must hold the engine's lock.
type Calls[T any] struct {
	engine  *Engine
	run     func(*T)
	queue   fifo.Queue[T]
	current T    // the running call
	running bool // runAll is running
	shut    bool // calls are no longer queued or run
}

// Init makes c a queue of e. For each call, the engine calls run without the lock.
func (c *Calls[T]) Init(e *Engine, run func(*T)) {
	c.engine, c.run = e, run
	e.calls.queues = append(e.calls.queues, c)
}

// Owe queues a call.
func (c *Calls[T]) Owe(call T) {
	if c.shut {
		return
	}
	c.queue.Push(call)
	if !c.running {
		c.engine.calls.owed++
	}
}

// Len returns how many calls are queued.
func (c *Calls[T]) Len() int { return c.queue.Len() }

// Keep removes the queued calls for which keep returns false.
func (c *Calls[T]) Keep(keep func(*T) bool) {
	if c.queue.Len() == 0 {
		return
	}
	before := c.queue.Len()
	c.queue.Keep(keep)
	c.dropped(before - c.queue.Len())
}

// Shut removes all queued calls. Later calls of Owe do nothing.
func (c *Calls[T]) Shut() {
	c.shut = true
	c.dropped(c.queue.Len())
	c.queue.Clear()
}

func (c *Calls[T]) dropped(n int) {
	if !c.running {
		c.engine.calls.owed -= n
	}
}

// runAll runs the queued calls. The caller holds the lock, and holds it again on return, even if a
// call panics. The next Unlock then runs the remaining calls.
func (c *Calls[T]) runAll() {
	if c.running || c.queue.Len() == 0 {
		return
	}
	c.dropped(c.queue.Len())
	c.running = true
	defer func() {
		c.running = false
		c.engine.calls.owed += c.queue.Len()
	}()
	for c.queue.Len() > 0 {
		c.current = c.queue.Pop()
		c.runOne()
	}
}

func (c *Calls[T]) runOne() {
	c.engine.mu.Unlock()
	defer func() {
		c.engine.mu.Lock()
		var none T
		c.current = none
	}()
	c.run(&c.current)
}

func (e *Engine) unlockAndCall() {
	defer e.mu.Unlock()
	e.runCalls()
}

// runCalls runs the calls of all queues. The caller holds the lock, and holds it again on return.
func (e *Engine) runCalls() {
	for _, q := range e.calls.queues {
		q.runAll()
	}
}
