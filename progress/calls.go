package progress

import "github.com/bobnet-go/bobnet/transport/fifo"

// Calls
//
// A machine never calls the program while it holds the engine's lock. It queues the
// call, and whoever gives up the lock next runs it: the goroutine that drives the
// engine, or the service when nobody does. The calls of one queue run in order, one at
// a time. A function that is called may therefore use everything, also what blocks;
// the calls behind it wait meanwhile.

// callQueue is what the engine knows of all queues of calls together. The engine's lock
// guards it.
type callQueue struct {
	queues    []caller
	owed      int  // calls in queues of which nobody runs one
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
	running bool // somebody is running them
	shut    bool // no more begin
}

// Init has e run the calls, each by run, which is called without the lock.
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

// Keep takes back the calls for which keep is false.
func (c *Calls[T]) Keep(keep func(*T) bool) {
	if c.queue.Len() == 0 {
		return
	}
	before := c.queue.Len()
	c.queue.Keep(keep)
	c.dropped(before - c.queue.Len())
}

// Shut takes back all calls, now and later.
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

// runAll runs what is queued. The lock is held on entry and on return, also when a call
// panics; the calls behind that one are run by whoever unlocks next.
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

// runCalls runs what the machine owes. The lock is held on entry and on return.
func (e *Engine) runCalls() {
	for _, q := range e.calls.queues {
		q.runAll()
	}
}
