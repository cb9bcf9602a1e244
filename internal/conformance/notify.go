package conformance

import (
	"github.com/bobnet-go/bobnet/vipl"
)

// note holds the arguments of a handler's call.
type note struct {
	v    *vipl.VI
	d    *vipl.Descriptor
	err  error
	recv bool
}

// notes collects the calls of handlers. A handler runs on the goroutine that drives the NIC.
type notes chan note

func newNotes() notes { return make(notes, 64) }

func (n notes) done(v *vipl.VI, d *vipl.Descriptor, err error) { n <- note{v: v, d: d, err: err} }
func (n notes) entry(v *vipl.VI, recv bool)                    { n <- note{v: v, recv: recv} }

// told waits for the next call of a handler.
func (c *Case) told(n notes) note {
	c.Helper()
	c.await("a handler's call", func() bool { return len(n) > 0 })
	return <-n
}

// untold checks that no handler is called after all frames in flight have arrived.
func (c *Case) untold(n notes) {
	c.Helper()
	c.drain()
	if len(n) > 0 {
		c.Fatalf("a handler was called: %+v", <-n)
	}
}

// notifying is SendNotify or RecvNotify, with a function that completes one descriptor of that
// queue of b.
type notifying struct {
	call   string
	notify func(v *vipl.VI, f func(*vipl.VI, *vipl.Descriptor, error)) error
	q      func(v *vipl.VI) taking
	op     vipl.Status
	next   func(c *Case, a, b *vipl.VI, i int) *vipl.Descriptor
}

var notifyings = []notifying{
	{"VipSendNotify", (*vipl.VI).SendNotify, sends, vipl.StatusOpSend, func(c *Case, a, b *vipl.VI, i int) *vipl.Descriptor {
		c.post(a, 8)
		return c.send(b, 8, i)
	}},
	{"VipRecvNotify", (*vipl.VI).RecvNotify, receives, vipl.StatusOpReceive, func(c *Case, a, b *vipl.VI, i int) *vipl.Descriptor {
		d := c.post(b, 8)
		c.send(a, 8, i)
		a.Flush()
		return d
	}},
}

// was checks that a handler's call was for descriptor d of v, with a status.
func (c *Case) was(n note, v *vipl.VI, d *vipl.Descriptor, status vipl.Status) {
	c.Helper()
	if n.v != v {
		c.Fatal("the handler got another VI")
	}
	c.expect(n.d, n.err, d, status)
}

func notifyRules() (rs []rule) {
	for _, k := range notifyings {
		rs = append(rs, k.rules()...)
		rs = append(rs, k.events()...)
		rs = append(rs, k.misuse()...)
	}
	return append(rs, cqNotifyRules...)
}

func (k notifying) rules() []rule {
	return []rule{
		{k.call, "Completion_HandlerCalled", "9 V", allLevels, func(c *Case) {
			a, b := c.pair()
			n := newNotes()
			c.is(k.notify(b, n.done), nil)
			c.untold(n)
			d := k.next(c, a, b, 1)
			c.was(c.told(n), b, d, k.op)
			c.empty(k.q(b))
		}},
		{k.call, "OneShot_SecondCompletionStays", "9 V", allLevels, func(c *Case) {
			a, b := c.pair()
			n := newNotes()
			c.is(k.notify(b, n.done), nil)
			d := k.next(c, a, b, 1)
			c.was(c.told(n), b, d, k.op)
			e := k.next(c, a, b, 2)
			x, err := c.take(b, k.q(b))
			c.expect(x, err, e, k.op)
			c.untold(n)
		}},
		{k.call, "CompletionThere_HandlerAtOnce", "9 V", allLevels, func(c *Case) {
			a, b := c.pair()
			d := k.next(c, a, b, 1)
			c.await("the completion", func() bool { s := b.Snapshot(); return s.Receives+s.SendsDone == 1 })
			n := newNotes()
			c.is(k.notify(b, n.done), nil)
			c.was(c.told(n), b, d, k.op)
			c.empty(k.q(b))
		}},
		{k.call, "SeveralHandlers_InOrder", "9 V", allLevels, func(c *Case) {
			a, b := c.pair()
			order := make(chan int, 8)
			for i := range 4 {
				c.is(k.notify(b, func(*vipl.VI, *vipl.Descriptor, error) { order <- i }), nil)
			}
			for i := range 4 {
				k.next(c, a, b, i)
			}
			b.Flush()
			for i := range 4 {
				c.await("a handler's call", func() bool { return len(order) > 0 })
				if got := <-order; got != i {
					c.Fatalf("handler %d was called, want %d", got, i)
				}
			}
		}},
	}
}

// events returns rules about other events that complete or end the wait of a handler.
func (k notifying) events() []rule {
	return []rule{
		{k.call, "Flushed_HandlerCalledInError", "9 V", allLevels, func(c *Case) {
			b := c.vi(c.B, nil)
			n := newNotes()
			c.is(k.notify(b, n.done), nil)
			d := &vipl.Descriptor{}
			if k.call == "VipSendNotify" {
				c.is(b.PostSend(d), nil)
			} else {
				c.is(b.PostRecv(d), nil)
				c.is(b.Disconnect(), nil)
			}
			c.was(c.told(n), b, d, k.op|vipl.StatusFlushed)
		}},
		{k.call, "HandlerMayPostAndRegister", "doc", allLevels, func(c *Case) {
			a, b := c.pair()
			const rounds = 5
			n := newNotes()
			var again func(v *vipl.VI, d *vipl.Descriptor, err error)
			again = func(v *vipl.VI, d *vipl.Descriptor, err error) {
				k.notify(v, again)
				v.PostRecv(&vipl.Descriptor{})
				v.State()
				n.done(v, d, err)
			}
			c.is(k.notify(b, again), nil)
			if k.call == "VipRecvNotify" {
				r := c.post(b, 8)
				c.sendNow(a, 8, 0)
				c.was(c.told(n), b, r, k.op)
				for range rounds {
					c.sendNow(a, 0, 0)
					c.told(n)
				}
				return
			}
			for i := range rounds {
				c.told2(n, k.next(c, a, b, i))
			}
		}},
		{k.call, "VIDestroyed_Cancelled", "9 V", allLevels, func(c *Case) {
			b := c.vi(c.B, nil)
			n := newNotes()
			c.is(k.notify(b, n.done), nil)
			c.post(b, 8)
			c.is(b.Close(), nil)
			for len(n) > 0 { // Close may report flushed descriptors; later there are no calls
				if x := <-n; x.d == nil {
					c.Error("a handler was called without a descriptor")
				}
			}
			c.untold(n)
		}},
	}
}

// told2 waits for the next call of a handler, which must be for d.
func (c *Case) told2(n notes, d *vipl.Descriptor) note {
	c.Helper()
	x := c.told(n)
	if x.d != d {
		c.Fatal("the handler got another descriptor")
	}
	return x
}

func (k notifying) misuse() []rule {
	return []rule{
		{k.call, "NilHandler_InvalidParameter", "3 V", anyLevel, func(c *Case) { c.is(k.notify(c.vi(c.A, nil), nil), vipl.ErrArgument) }},
		{k.call, "QueueBoundToCQ_InvalidParameter", "9 M", anyLevel, func(c *Case) {
			q := c.cq(c.A, 4)
			c.is(k.notify(c.viOn(c.A, nil, q, q), newNotes().done), vipl.ErrArgument)
		}},
		{k.call, "OtherQueueBoundToCQ_Success", "9 M", anyLevel, func(c *Case) {
			q := c.cq(c.A, 4)
			v := c.viOn(c.A, nil, q, nil)
			if k.call == "VipSendNotify" {
				v = c.viOn(c.A, nil, nil, q)
			}
			c.is(k.notify(v, newNotes().done), nil)
		}},
		{k.call, "DestroyedVI_InvalidState", "3 V", anyLevel, func(c *Case) {
			v := c.vi(c.A, nil)
			c.is(v.Close(), nil)
			c.is(k.notify(v, newNotes().done), vipl.ErrInvalidState)
		}},
		{k.call, "MoreHandlersThanDepth_Resource", "3 V", anyLevel, func(c *Case) {
			v := c.vi(c.A, &vipl.Attributes{QueueDepth: 2})
			c.is(k.notify(v, newNotes().done), nil)
			c.is(k.notify(v, newNotes().done), nil)
			c.is(k.notify(v, newNotes().done), vipl.ErrResource)
		}},
	}
}

var cqNotifyRules = []rule{
	{"VipCQNotify", "Entry_HandlerCalled", "9 V", allLevels, func(c *Case) {
		a, b, q := c.bound(4)
		n := newNotes()
		c.is(q.Notify(n.entry), nil)
		c.untold(n)
		r := c.post(b, 8)
		c.send(a, 8, 1)
		if x := c.told(n); x.v != b || !x.recv {
			c.Errorf("%+v", x)
		}
		d, err := b.RecvDone()
		c.expect(d, err, r, vipl.StatusOpReceive)
		c.noEntry(q)
	}},
	{"VipCQNotify", "SendEntry_SaysSo", "9 V", allLevels, func(c *Case) {
		a, b, q := c.bound(4)
		n := newNotes()
		c.is(q.Notify(n.entry), nil)
		c.post(a, 8)
		c.send(b, 8, 1)
		if x := c.told(n); x.v != b || x.recv {
			c.Errorf("%+v", x)
		}
	}},
	{"VipCQNotify", "EntryThere_HandlerAtOnce", "9 V", anyLevel, func(c *Case) {
		q := c.cq(c.A, 4)
		v := c.viOn(c.A, nil, q, nil)
		c.send(v, 1, 1)
		n := newNotes()
		c.is(q.Notify(n.entry), nil)
		if x := c.told(n); x.v != v || x.recv {
			c.Errorf("%+v", x)
		}
		c.noEntry(q)
	}},
	{"VipCQNotify", "OneShot_SecondEntryStays", "9 V", allLevels, func(c *Case) {
		a, b, q := c.bound(4)
		n := newNotes()
		c.is(q.Notify(n.entry), nil)
		c.postMany(b, 2)
		c.send(a, 8, 1)
		c.told(n)
		c.send(a, 8, 2)
		c.entry(c.B, q, b, true)
		c.untold(n)
	}},
	{"VipCQNotify", "SeveralHandlers_InOrder", "9 V", allLevels, func(c *Case) {
		a, b, q := c.bound(8)
		order := make(chan int, 8)
		for i := range 4 {
			c.is(q.Notify(func(*vipl.VI, bool) { order <- i }), nil)
		}
		c.postMany(b, 4)
		for i := range 4 {
			c.send(a, 8, i)
		}
		a.Flush()
		for i := range 4 {
			c.await("a handler's call", func() bool { return len(order) > 0 })
			if got := <-order; got != i {
				c.Fatalf("handler %d was called, want %d", got, i)
			}
		}
	}},
	{"VipCQNotify", "Destroyed_Cancelled", "9 V", anyLevel, func(c *Case) {
		q := c.cq(c.A, 4)
		n := newNotes()
		c.is(q.Notify(n.entry), nil)
		c.is(q.Close(), nil)
		c.untold(n)
		c.is(q.Notify(n.entry), vipl.ErrInvalidState)
	}},
	{"VipCQNotify", "NilHandler_InvalidParameter", "3 V", anyLevel, func(c *Case) { c.is(c.cq(c.A, 1).Notify(nil), vipl.ErrArgument) }},
	{"VipCQNotify", "MoreHandlersThanEntries_Resource", "3 V", anyLevel, func(c *Case) {
		q := c.cq(c.A, 1)
		c.is(q.Notify(newNotes().entry), nil)
		c.is(q.Notify(newNotes().entry), vipl.ErrResource)
	}},
	{"VipResizeCQ", "Larger_MoreFit", "2.7 V", allLevels, func(c *Case) {
		q := c.cq(c.A, 2)
		v := c.viOn(c.A, nil, q, nil)
		before := c.A.Snapshot().CQOverruns
		c.send(v, 1, 1)
		c.send(v, 1, 2)
		c.is(q.Resize(5), nil)
		for i := range 3 {
			c.send(v, 1, i)
		}
		for range 5 {
			c.entry(c.A, q, v, false)
		}
		c.noEntry(q)
		if n := c.A.Snapshot().CQOverruns - before; n != 0 {
			c.Error(n, "entries were lost")
		}
		if a := q.Query(); a.Entries != 5 || a.Used != 0 || a.WorkQueues != 1 {
			c.Errorf("%+v", a)
		}
	}},
	{"VipResizeCQ", "SmallerThanUsed_Resource", "3 V", anyLevel, func(c *Case) {
		q := c.cq(c.A, 4)
		v := c.viOn(c.A, nil, q, nil)
		for i := range 3 {
			c.send(v, 1, i)
		}
		c.is(q.Resize(2), vipl.ErrResource)
		c.is(q.Resize(3), nil)
		before := c.A.Snapshot().CQOverruns
		c.send(v, 1, 3) // one entry too many
		if n := c.A.Snapshot().CQOverruns - before; n != 1 {
			c.Error(n, "entries were lost, want 1")
		}
		for range 3 {
			c.entry(c.A, q, v, false)
		}
	}},
	{"VipResizeCQ", "Wrapped_OrderKept", "2.7 V", anyLevel, func(c *Case) {
		q := c.cq(c.A, 3)
		v, w := c.viOn(c.A, nil, q, nil), c.viOn(c.A, nil, q, nil)
		c.send(v, 1, 1)
		c.send(v, 1, 1)
		c.entry(c.A, q, v, false)
		c.entry(c.A, q, v, false)
		for _, x := range []*vipl.VI{w, v, w} { // wraps around the end of the ring
			c.send(x, 1, 1)
		}
		c.is(q.Resize(6), nil)
		for _, x := range []*vipl.VI{w, v, w} {
			c.entry(c.A, q, x, false)
		}
	}},
	{"VipResizeCQ", "NoEntries_InvalidParameter", "3 V", anyLevel, func(c *Case) {
		q := c.cq(c.A, 1)
		c.is(q.Resize(0), vipl.ErrArgument)
		c.is(q.Resize(-1), vipl.ErrArgument)
		c.is(q.Resize(vipl.MaxCQEntries+1), vipl.ErrArgument)
		c.is(q.Resize(vipl.MaxCQEntries), nil)
	}},
	{"VipResizeCQ", "Destroyed_InvalidState", "3 V", anyLevel, func(c *Case) {
		q := c.cq(c.A, 1)
		c.is(q.Close(), nil)
		c.is(q.Resize(2), vipl.ErrInvalidState)
	}},
}
