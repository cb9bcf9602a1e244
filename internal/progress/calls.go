package progress

import "github.com/bobnet-go/bobnet/internal/fifo"

// Calls
//
// A machine never calls the program while it holds the engine's lock. It queues the
// call, and the goroutine that releases the lock next runs it: one of the program's, or
// the service. The calls of one queue run in order, one at a time. A function that is
// called may therefore call anything of the room, also what blocks; the calls behind it in
// the queue wait meanwhile.

// callQueue is the engine's record of all its queues of calls. The engine's lock guards
// it.
type callQueue struct {
	queues    []caller
	owed      int  // calls in those queues whose runAll is not running
	byService bool // the service goroutine runs calls
}

type caller interface{ runAll() }

// due reports whether calls wait for somebody to run them.
func (q *callQueue) due() bool { return q.owed > 0 }

// Calls is one queue of calls, each a T. The engine's lock guards it.
type Calls[T any] struct {
	engine  *Engine
	run     func(*T)
	queue   fifo.Queue[T]
	current T    // the one that runs
	running bool // runAll is running
	shut    bool // no call is queued or run any more
}

// Init makes c a queue of e. For each call the engine calls run, without the lock.
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

// Shut removes all queued calls, and makes Owe do nothing from now on.
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

// runAll runs the queued calls. The lock is held on entry and on return, also when a call
// panics; the next Unlock then runs the calls behind that one.
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

// runCalls runs the calls of all queues. The lock is held on entry and on return.
func (e *Engine) runCalls() {
	for _, q := range e.calls.queues {
		q.runAll()
	}
}
