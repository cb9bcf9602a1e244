package vipl

// call is one callback that runs after the engine's lock is released. Exactly one of the functions
// is set.
type call struct {
	done  func(v *VI, d *Descriptor, err error)
	entry func(v *VI, recv bool)
	fail  func(e AsyncError)
	ring  func()
	v     *VI
	q     *CQ // that the entry comes from, or that rings
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
	case c.ring != nil:
		c.ring()
	default:
		c.async.NIC.errs.owed.Add(-1)
		c.fail(c.async)
	}
}

// cancelCalls removes pending calls to the handlers of a closed VI v or of a closed queue q. The
// handler of another CQ that already has an entry of v still runs, because it has left the list of
// handlers.
func (n *NIC) cancelCalls(v *VI, q *CQ) {
	n.calls.Keep(func(c *call) bool {
		return !(v != nil && c.done != nil && c.v == v || q != nil && c.q == q)
	})
}
