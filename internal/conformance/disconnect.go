package conformance

import (
	"github.com/bobnet-go/bobnet/vipl"
)

var disconnectRules = []rule{
	{"VipDisconnect", "Connected_Idle", "4 M", allLevels, func(c *Case) {
		a, _ := c.pair()
		c.is(a.Disconnect(), nil)
		c.state(a, vipl.StateIdle)
	}},
	{"VipDisconnect", "PeerSeesError", "4 M", allLevels, func(c *Case) {
		a, b := c.pair()
		c.is(a.Disconnect(), nil)
		c.ended(vipl.ErrDisconnected, b)
	}},
	{"VipDisconnect", "Twice_Success", "4 M", allLevels, func(c *Case) {
		a, _ := c.pair()
		c.is(a.Disconnect(), nil)
		c.is(a.Disconnect(), nil)
		c.state(a, vipl.StateIdle)
	}},
	{"VipDisconnect", "ErrorState_Idle", "4 M", allLevels, func(c *Case) {
		a, b := c.pair()
		a.Disconnect()
		c.ended(vipl.ErrDisconnected, b)
		c.is(b.Disconnect(), nil)
		c.state(b, vipl.StateIdle)
	}},
	{"VipDisconnect", "ConnectAgain_Success", "4 M", allLevels, func(c *Case) {
		a, b := c.pair()
		for range 3 {
			c.works(a, b)
			c.is(a.Disconnect(), nil)
			c.ended(vipl.ErrDisconnected, b)
			c.is(b.Disconnect(), nil)
			c.join(a, b)
		}
		c.works(a, b)
	}},
	{"VipDisconnect", "BothAtOnce_Idle", "4 M", allLevels, func(c *Case) {
		a, b := c.pair()
		c.is(a.Disconnect(), nil)
		c.is(b.Disconnect(), nil)
		c.drain()
		c.state(a, vipl.StateIdle)
		c.state(b, vipl.StateIdle)
		c.join(a, b)
		c.works(a, b)
	}},
	{"VipDisconnect", "ReceivesFlushedInOrder", "4 M", allLevels, func(c *Case) {
		a, _ := c.pair()
		ds := c.postMany(a, 5)
		c.is(a.Disconnect(), nil)
		for _, d := range ds {
			c.got(a, d, vipl.StatusOpReceive|vipl.StatusFlushed)
			if d.Length != 0 {
				c.Error("length", d.Length)
			}
		}
		c.empty(receives(a))
	}},
	{"VipDisconnect", "PeersReceivesFlushedInOrder", "4 M", allLevels, func(c *Case) {
		a, b := c.pair()
		ds := c.postMany(b, 5)
		c.is(a.Disconnect(), nil)
		for _, d := range ds {
			c.got(b, d, vipl.StatusOpReceive|vipl.StatusFlushed)
		}
		c.empty(receives(b))
	}},
	{"VipDisconnect", "SendsFlushedInOrder", "4 M", reliable, func(c *Case) {
		a, b := c.pair()
		for range 40 {
			c.post(b, 100_000)
		}
		var ds []*vipl.Descriptor
		for i := range 40 { // more than a window: most have not been sent yet
			ds = append(ds, c.send(a, 100_000, i))
		}
		c.is(a.Disconnect(), nil)
		c.flushedFrom(ds, sends(a), vipl.StatusOpSend)
	}},
	{"VipDisconnect", "DeliveredBefore_Kept", "4 M", allLevels, func(c *Case) {
		a, b := c.pair()
		r := c.post(b, 100)
		c.sendNow(a, 99, 3)
		c.drained(c.A)
		c.is(a.Disconnect(), nil)
		c.ended(vipl.ErrDisconnected, b)
		c.gotData(b, r, 99, 3)
	}},
	{"VipDisconnect", "CompletedReceive_KeptAndTaken", "4 M", allLevels, func(c *Case) {
		a, b := c.pair()
		r, later := c.post(b, 100), c.post(b, 100)
		c.send(a, 9, 3)
		c.await("the message", func() bool { return b.Snapshot().Receives == 1 })
		c.is(b.Disconnect(), nil)
		c.gotData(b, r, 9, 3)
		c.got(b, later, vipl.StatusOpReceive|vipl.StatusFlushed)
	}},
	{"VipDisconnect", "Connecting_Idle", "4 M", allLevels, func(c *Case) {
		v, l := c.vi(c.A, nil), c.listen(c.B)
		c.is(v.ConnectStart(l.Addr(), nil), nil)
		c.is(v.Disconnect(), nil)
		c.state(v, vipl.StateIdle)
		c.is(v.ConnectDone(), vipl.ErrDisconnected)
	}},
	{"VipDisconnect", "Waiting_Flushed", "4 M", allLevels, func(c *Case) {
		a, _ := c.pair()
		r := c.post(a, 8)
		err := c.during(c.A, func() error { _, err := a.RecvWait(c.ctx()); return err }, func() { a.Disconnect() })
		c.is(err, vipl.ErrDescriptor)
		if r.Status != vipl.StatusDone|vipl.StatusOpReceive|vipl.StatusFlushed {
			c.Error(r.Status)
		}
	}},
	{"VipDisconnect", "PeerWaiting_Flushed", "4 M", allLevels, func(c *Case) {
		a, b := c.pair()
		r := c.post(a, 8)
		c.is(b.Disconnect(), nil)
		c.got(a, r, vipl.StatusOpReceive|vipl.StatusFlushed)
	}},
}

// flushedFrom takes the descriptors of a queue that has just been flushed. The first ones may have
// completed normally; from the first flushed descriptor on, all must be flushed.
func (c *Case) flushedFrom(ds []*vipl.Descriptor, q taking, op vipl.Status) {
	c.Helper()
	flushed := false
	for _, d := range ds {
		x, err := q.done()
		if flushed = flushed || x != nil && x.Status.Failed(); flushed {
			c.expect(x, err, d, op|vipl.StatusFlushed)
		} else {
			c.expect(x, err, d, op)
		}
	}
	if !flushed && c.World != nil { // in real time all sends may have completed before
		c.Error("all sends had completed before the flush, so the rule tested nothing")
	}
}

func (c *Case) postMany(v *vipl.VI, n int) (ds []*vipl.Descriptor) {
	for range n {
		ds = append(ds, c.post(v, 8))
	}
	return ds
}
