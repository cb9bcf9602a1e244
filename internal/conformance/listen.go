package conformance

import (
	"context"
	"time"

	"github.com/bobnet-go/bobnet/internal/seam"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/vipl"
)

var listenRules = []rule{
	{"VipConnectWait", "PortZero_PicksFreePort", "doc", anyLevel, func(c *Case) {
		l, m := c.listen(c.A), c.listen(c.A)
		if q := c.A.Query(); l.Addr() == m.Addr() || !q.Ports.Contains(l.Addr().Port) || l.Addr().MAC != q.Addr.MAC {
			c.Error(l.Addr(), m.Addr())
		}
	}},
	{"VipConnectWait", "NICsPort_InvalidParameter", "doc", anyLevel, func(c *Case) {
		_, err := c.A.Listen(c.A.Query().Ports.Lo)
		c.is(err, vipl.ErrArgument)
	}},
	{"VipConnectWait", "PortOutOfRange_InvalidParameter", "doc", anyLevel, func(c *Case) {
		p := c.A.Query().Ports
		if p == transport.AllPorts {
			c.Skip("the link has all ports")
		}
		_, err := c.A.Listen(p.Hi + 1)
		c.is(err, vipl.ErrArgument)
	}},
	{"VipConnectWait", "HighestPort_Success", "doc", anyLevel, func(c *Case) {
		l, err := c.A.Listen(c.A.Query().Ports.Hi)
		c.is(err, nil)
		c.is(l.Close(), nil)
	}},
	{"VipConnectWait", "PortOfListener_Resource", "doc", anyLevel, func(c *Case) {
		_, err := c.A.Listen(c.listen(c.A).Addr().Port)
		c.is(err, vipl.ErrResource)
	}},
	{"VipConnectWait", "PortOfVI_Resource", "doc", anyLevel, func(c *Case) {
		_, err := c.A.Listen(c.vi(c.A, nil).Local().Port)
		c.is(err, vipl.ErrResource)
	}},
	{"VipConnectWait", "ClosedListenersPort_Success", "doc", anyLevel, func(c *Case) {
		l := c.listen(c.A)
		c.is(l.Close(), nil)
		m, err := c.A.Listen(l.Addr().Port)
		c.is(err, nil)
		c.is(m.Close(), nil)
	}},
	{"VipConnectWait", "Discriminator_TellsListenersApart", "1 V", anyLevel, func(c *Case) {
		one, two := c.listenFor(c.B, "one"), c.listenFor(c.B, "two")
		a, b := c.vi(c.A, nil), c.vi(c.B, nil)
		c.is(a.ConnectForStart(c.B.Addr(), []byte("two"), []byte("hello")), nil)
		r := c.next(two)
		if string(r.Data()) != "hello" {
			c.Errorf("private data %q", r.Data())
		}
		c.is(r.AcceptStart(b), nil)
		c.is(c.outcome(a), nil)
		c.is(c.outcome(b), nil)
		c.works(a, b)
		_, err := one.Poll()
		c.is(err, vipl.ErrNotDone)
	}},
	{"VipConnectWait", "DiscriminatorOfListener_Resource", "doc", anyLevel, func(c *Case) {
		c.listenFor(c.A, "one")
		_, err := c.A.ListenFor([]byte("one"))
		c.is(err, vipl.ErrResource)
	}},
	{"VipConnectWait", "DiscriminatorTooLong_InvalidParameter", "11 V", anyLevel, func(c *Case) {
		_, err := c.A.ListenFor(make([]byte, c.A.Query().MaxDiscriminatorLen+1))
		c.is(err, vipl.ErrArgument)
	}},
	{"VipConnectRequest", "UnknownDiscriminator_NoMatch", "8 M", anyLevel, func(c *Case) {
		c.listenFor(c.B, "one")
		a := c.vi(c.A, nil)
		c.is(a.ConnectForStart(c.B.Addr(), []byte("two"), nil), nil)
		c.is(c.outcome(a), vipl.ErrNoMatch)
		c.state(a, vipl.StateIdle)
	}},
	{"VipConnectWait", "NoRequest_NotDone", "3 V", anyLevel, func(c *Case) {
		_, err := c.listen(c.A).Poll()
		c.is(err, vipl.ErrNotDone)
	}},
	{"VipConnectWait", "TimeIsUp_Timeout", "3 V", anyLevel, func(c *Case) {
		l := c.listen(c.A)
		c.timesOut(func(ctx context.Context) error { _, err := l.Wait(ctx); return err })
	}},
	{"VipConnectWait", "Cancelled_Timeout", "3 V", anyLevel, func(c *Case) {
		l := c.listen(c.A)
		c.cancelled(func(ctx context.Context) error { _, err := l.Wait(ctx); return err })
	}},
	{"VipConnectWait", "Closed_InvalidState", "doc", anyLevel, func(c *Case) {
		l := c.listen(c.A)
		c.is(l.Close(), nil)
		c.is(l.Close(), nil)
		_, err := l.Poll()
		c.is(err, vipl.ErrInvalidState)
		_, err = l.Wait(c.ctx())
		c.is(err, vipl.ErrInvalidState)
	}},
	{"VipConnectWait", "ClosedMeanwhile_InvalidState", "doc", anyLevel, func(c *Case) {
		l := c.listen(c.A)
		c.is(c.during(c.A, func() error { _, err := l.Wait(c.ctx()); return err }, func() { l.Close() }), vipl.ErrClosed)
	}},
	{"VipConnectWait", "Closed_RequestsGetNoMatch", "8 M", anyLevel, func(c *Case) {
		l, v := c.listen(c.B), c.vi(c.A, nil)
		c.is(v.ConnectStart(l.Addr(), nil), nil)
		c.drained(c.A)
		c.is(l.Close(), nil)
		c.is(c.outcome(v), vipl.ErrNoMatch)
	}},
	{"VipConnectWait", "RemoteAddress_IsTheRequesters", "2.3 V", allLevels, func(c *Case) {
		v := c.vi(c.A, nil)
		if r := c.request(v, c.listen(c.B), nil); r.Remote() != v.Local() {
			c.Error(r.Remote(), v.Local())
		}
	}},
	{"VipConnectWait", "RemoteAttributes_AreTheRequesters", "2.3 V", allLevels, func(c *Case) {
		for _, a := range c.unlikes() {
			c.remoteIs(c.request(c.vi(c.A, a), c.listen(c.B), nil).Attributes(), a)
		}
	}},
	{"VipConnectWait", "OnlyRemoteAddressMatches", "8 V", anyLevel, func(c *Case) {
		l, m := c.listen(c.B), c.listen(c.B)
		v, w := c.vi(c.A, nil), c.vi(c.A, nil)
		c.is(v.ConnectStart(m.Addr(), nil), nil)
		c.is(w.ConnectStart(l.Addr(), nil), nil)
		if r := c.next(l); r.Remote() != w.Local() {
			c.Error("the first listener got", r.Remote())
		}
		if r := c.next(m); r.Remote() != v.Local() {
			c.Error("the second listener got", r.Remote())
		}
	}},
	{"VipConnectWait", "Requests_InOrder", "doc", anyLevel, func(c *Case) {
		l := c.listen(c.B)
		var vis []*vipl.VI
		for range 5 {
			v := c.vi(c.A, nil)
			c.is(v.ConnectStart(l.Addr(), nil), nil)
			vis = append(vis, v)
		}
		for _, v := range vis {
			if r := c.next(l); r.Remote() != v.Local() {
				c.Errorf("request from %v, want %v", r.Remote(), v.Local())
			}
		}
	}},
	{"VipConnectWait", "RepeatedRequest_QueuedOnce", "doc", anyLevel, func(c *Case) {
		l, v := c.listen(c.B), c.vi(c.A, nil)
		c.request(v, l, nil)
		sent := c.A.Snapshot().TxFrames
		c.await("repetitions", func() bool { return c.A.Snapshot().TxFrames > sent+3 })
		c.drain()
		_, err := l.Poll()
		c.is(err, vipl.ErrNotDone)
	}},
	{"VipConnectWait", "BoundToCQ_EntryInTurn", "doc", allLevels, func(c *Case) {
		a, b, q := c.bound(1)
		l := c.listen(c.B)
		c.is(l.Bind(q), nil)
		c.post(b, 8)
		c.send(a, 8, 1)
		c.await("the message", func() bool { return b.Snapshot().Receives == 1 })
		v := c.vi(c.A, nil)
		c.is(v.ConnectStart(l.Addr(), nil), nil)
		c.entry(c.B, q, b, true)
		c.entry(c.B, q, nil, false)
		r, err := l.Poll()
		c.is(err, nil)
		if r.Remote() != v.Local() {
			c.Error(r.Remote(), v.Local())
		}
		c.noEntry(q)
		c.is(l.Close(), nil) // the queue can be closed only after the listener
	}},
	{"VipConnectWait", "BoundToCQ_ReapWaitReturnsRequest", "doc", anyLevel, func(c *Case) {
		q, l, v := c.cq(c.B, 1), c.listen(c.B), c.vi(c.A, nil)
		c.is(l.Bind(q), nil)
		var out []seam.Completion
		c.is(c.during(c.B, func() (err error) { out, err = seam.OnQueue(q, 2).ReapWait(c.ctx()); return err }, func() { c.is(v.ConnectStart(l.Addr(), nil), nil) }), nil)
		if len(out) != 1 || out[0].Request == nil || out[0].Request.Remote() != v.Local() || out[0].Request.Listener() != l {
			c.Errorf("%+v", out)
		}
	}},
	{"VipConnectWait", "BoundToCQ_QueueClosesAfterListener", "doc", anyLevel, func(c *Case) {
		q, l := c.cq(c.A, 1), c.listen(c.A)
		c.is(l.Bind(q), nil)
		c.is(q.Close(), vipl.ErrResource)
		c.is(l.Close(), nil)
		c.is(q.Close(), nil)
	}},
	{"VipConnectWait", "Data_None", "doc", anyLevel, func(c *Case) { c.carries(0) }},
	{"VipConnectWait", "Data_OneByte", "doc", anyLevel, func(c *Case) { c.carries(1) }},
	{"VipConnectWait", "Data_Max", "doc", anyLevel, func(c *Case) { c.carries(vipl.MaxConnData) }},
}

// carries sends a request with size bytes of private data, and checks that they arrive.
func (c *Case) carries(size int) {
	c.Helper()
	data := make([]byte, size)
	fill(data, size)
	r := c.request(c.vi(c.A, nil), c.listen(c.B), data)
	fill(data, 0) // must have no effect, because the call has copied the data
	if got := r.Data(); len(got) != size || !same(got, size) {
		c.Errorf("%d bytes of private data became %d", size, len(got))
	}
}

// timesOut checks that a call ends at its context's deadline.
func (c *Case) timesOut(call func(ctx context.Context) error) {
	c.Helper()
	ctx, cancel := c.A.WithTimeout(context.Background(), 5*time.Millisecond)
	defer cancel()
	var err error
	c.block(c.A, func() { err = call(ctx) })
	c.is(err, vipl.ErrTimeout)
	c.is(err, context.DeadlineExceeded)
}

// cancelled checks that a call ends at once if its context has ended.
func (c *Case) cancelled(call func(ctx context.Context) error) {
	c.Helper()
	if c.World != nil {
		c.Skip("a simulated link ignores the end of a context, which is an event of real time")
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	err := call(ctx)
	c.is(err, vipl.ErrTimeout)
	c.is(err, context.Canceled)
}
