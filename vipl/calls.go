package vipl

// call is one callback to be run behind the engine's lock; exactly one of the
// functions is set.
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

// cancelCalls takes back the calls to handlers of v or of q, which is closed. A
// handler of another CQ that is about to be told of v is called all the same:
// it has lost its place in the line.
func (n *NIC) cancelCalls(v *VI, q *CQ) {
	n.calls.Keep(func(c *call) bool {
		return !(v != nil && c.done != nil && c.v == v || q != nil && c.q == q)
	})
}
