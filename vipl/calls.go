package vipl

// Callbacks
//
// The engine never calls the program while it holds its lock. It queues the
// call, and whoever gives up the lock next runs it: the goroutine that drives
// the engine, or the service when nobody does. Calls run in the order of what
// they tell, one at a time for each NIC. A handler may therefore call any
// method, also one that blocks; the handlers after it wait meanwhile.

// call is one callback to be run; exactly one of the functions is set.
type call struct {
	done  func(v *VI, d *Descriptor, err error)
	entry func(v *VI, recv bool)
	fail  func(e AsyncError)
	v     *VI
	q     *CQ // that the entry comes from
	d     *Descriptor
	err   error
	recv  bool
	async AsyncError
}

func (c *call) run() {
	switch {
	case c.done != nil:
		c.done(c.v, c.d, c.err)
	case c.entry != nil:
		c.entry(c.v, c.recv)
	default:
		c.fail(c.async)
	}
}

// callQueue holds the calls that the NIC owes. The NIC's lock guards it.
type callQueue struct {
	fifo[call]
	running   bool // somebody is running them
	byService bool // and it is the service goroutine
	shut      bool // the NIC closes: no more begin
	errors    int  // of them are asynchronous errors
}

// due reports whether calls wait for somebody to run them.
func (q *callQueue) due() bool { return q.size() > 0 && !q.running }

// owe queues a call.
func (n *NIC) owe(c call) {
	if !n.calls.shut {
		n.calls.push(c)
	}
}

// unlock gives up the engine's lock. Every holder leaves through it, so that no
// call is forgotten.
func (n *NIC) unlock() {
	if n.calls.due() {
		n.unlockAndRun()
		return
	}
	n.mu.Unlock()
}

func (n *NIC) unlockAndRun() {
	defer n.mu.Unlock()
	n.runCalls()
}

// runCalls runs what the NIC owes. It is called and returns with n.mu held,
// also when a handler panics; the calls behind that one are run by whoever
// unlocks next.
func (n *NIC) runCalls() {
	q := &n.calls
	q.running = true
	defer func() { q.running = false }()
	for q.size() > 0 {
		c := q.pop()
		if c.fail != nil {
			q.errors--
		}
		n.runCall(&c)
	}
}

func (n *NIC) runCall(c *call) {
	n.mu.Unlock()
	defer n.mu.Lock()
	c.run()
}

// cancelCalls takes back the calls to handlers of v or of q, which is closed. A
// handler of another CQ that is about to be told of v is called all the same:
// it has lost its place in the line.
func (n *NIC) cancelCalls(v *VI, q *CQ) {
	if n.calls.size() == 0 {
		return
	}
	n.calls.keep(func(c *call) bool {
		return !(v != nil && c.done != nil && c.v == v || q != nil && c.q == q)
	})
}

// shutCalls takes back everything, because the NIC closes.
func (n *NIC) shutCalls() {
	n.calls.shut = true
	n.calls.errors = 0
	n.calls.clear()
}

// fifo is a queue in one slice, which keeps its memory. The zero fifo is empty.
type fifo[T any] struct {
	items []T
	head  int
}

func (f *fifo[T]) size() int { return len(f.items) - f.head }

func (f *fifo[T]) push(x T) {
	if f.head > 0 && len(f.items) == cap(f.items) { // move up instead of growing
		k := copy(f.items, f.items[f.head:])
		clear(f.items[k:])
		f.items, f.head = f.items[:k], 0
	}
	f.items = append(f.items, x)
}

// pop takes the oldest; there must be one.
func (f *fifo[T]) pop() T {
	var zero T
	x := f.items[f.head]
	f.items[f.head] = zero
	if f.head++; f.head == len(f.items) {
		f.items, f.head = f.items[:0], 0
	}
	return x
}

// keep drops all for which ok is false.
func (f *fifo[T]) keep(ok func(*T) bool) {
	left := f.items[:0]
	for i := f.head; i < len(f.items); i++ {
		if ok(&f.items[i]) {
			left = append(left, f.items[i])
		}
	}
	clear(f.items[len(left):])
	f.items, f.head = left, 0
}

func (f *fifo[T]) clear() { f.items, f.head = nil, 0 }
