package conformance

import (
	"context"
	"errors"

	"github.com/bobnet-go/bobnet/vipl"
)

var doneRules = []rule{
	{"VipSendDone", "EmptyQueue_DescriptorError", "9 V", allLevels, func(c *Case) {
		a, _ := c.pair()
		c.empty(sends(a))
		_, err := a.SendDone()
		c.is(err, vipl.ErrDescriptor)
	}},
	{"VipRecvDone", "EmptyQueue_DescriptorError", "9 V", allLevels, func(c *Case) {
		a, _ := c.pair()
		c.empty(receives(a))
		_, err := a.RecvDone()
		c.is(err, vipl.ErrDescriptor)
	}},
	{"VipSendWait", "EmptyQueue_DescriptorErrorAtOnce", "9 V", anyLevel, func(c *Case) {
		d, err := c.vi(c.A, nil).SendWait(context.Background())
		if d != nil || err != vipl.ErrQueueEmpty {
			c.Error(d, err)
		}
	}},
	{"VipRecvWait", "EmptyQueue_DescriptorErrorAtOnce", "9 V", anyLevel, func(c *Case) {
		d, err := c.vi(c.A, nil).RecvWait(context.Background())
		if d != nil || err != vipl.ErrQueueEmpty {
			c.Error(d, err)
		}
	}},
	{"VipSendDone", "HeadPending_NotDone", "9 V", allLevels, func(c *Case) {
		a := c.vi(c.A, nil)
		c.request(a, c.listen(c.B), nil)
		c.send(a, 8, 1) // waits for the connection
		c.pending(sends(a))
	}},
	{"VipRecvDone", "HeadPending_NotDone", "9 V", allLevels, func(c *Case) {
		a, _ := c.pair()
		c.post(a, 8)
		c.pending(receives(a))
	}},
	{"VipRecvDone", "IdleVI_NotDone", "9 V", allLevels, func(c *Case) {
		v := c.vi(c.A, nil)
		c.post(v, 8)
		c.pending(receives(v))
	}},
	{"VipSendDone", "HeadInError_DescriptorError", "9 V", allLevels, func(c *Case) {
		v := c.vi(c.A, nil)
		s := c.send(v, 8, 1)
		d, err := v.SendDone()
		c.expect(d, err, s, vipl.StatusOpSend|vipl.StatusFlushed)
		if errors.Is(err, vipl.ErrQueueEmpty) {
			c.Error("it reports that the queue is empty")
		}
	}},
	{"VipRecvDone", "HeadInError_DescriptorError", "9 V", allLevels, func(c *Case) {
		a, b := c.pair()
		r := c.post(a, 8)
		b.Disconnect()
		c.got(a, r, vipl.StatusOpReceive|vipl.StatusFlushed)
	}},
	{"VipSendDone", "Taken_Once", "9 V", allLevels, func(c *Case) {
		a, b := c.pair()
		c.post(b, 8)
		c.sendNow(a, 8, 1)
		c.empty(sends(a))
	}},
	{"VipRecvDone", "Taken_Once", "9 V", allLevels, func(c *Case) {
		a, b := c.pair()
		r := c.post(b, 8)
		c.sendNow(a, 8, 1)
		c.got(b, r, vipl.StatusOpReceive)
		c.empty(receives(b))
	}},
	{"VipSendWait", "HeadDone_AtOnce", "2.6 M", allLevels, func(c *Case) {
		v := c.vi(c.A, nil)
		s := c.send(v, 8, 1)
		d, err := v.SendWait(context.Background())
		c.expect(d, err, s, vipl.StatusOpSend|vipl.StatusFlushed)
	}},
	{"VipSendWait", "HeadDoneContextOver_StillTaken", "2.6 M", anyLevel, func(c *Case) {
		v := c.vi(c.A, nil)
		s := c.send(v, 8, 1)
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		d, err := v.SendWait(ctx)
		c.expect(d, err, s, vipl.StatusOpSend|vipl.StatusFlushed)
	}},
	{"VipSendWait", "TimeIsUp_Timeout", "2.6 M", anyLevel, func(c *Case) {
		v := c.vi(c.A, nil)
		r := c.request(v, c.listen(c.B), nil)
		s := c.send(v, 8, 1)
		c.timesOut(func(ctx context.Context) error { _, err := v.SendWait(ctx); return err })
		c.is(r.Reject(""), nil)
		c.sent(v, s, vipl.StatusOpSend|vipl.StatusFlushed)
	}},
	{"VipRecvWait", "TimeIsUp_Timeout", "2.6 M", allLevels, func(c *Case) {
		a, b := c.pair()
		r := c.post(a, 8)
		c.timesOut(func(ctx context.Context) error { _, err := a.RecvWait(ctx); return err })
		c.send(b, 8, 1) // the receive is still posted
		c.gotData(a, r, 8, 1)
	}},
	{"VipRecvWait", "Cancelled_Timeout", "2.6 M", anyLevel, func(c *Case) {
		a, _ := c.pair()
		c.post(a, 8)
		c.cancelled(func(ctx context.Context) error { _, err := a.RecvWait(ctx); return err })
	}},
	{"VipRecvWait", "CancelledMeanwhile_Timeout", "2.6 M", anyLevel, func(c *Case) {
		if c.World != nil {
			c.Skip("a simulated link ignores the end of a context, which is an event of real time")
		}
		a, _ := c.pair()
		c.post(a, 8)
		ctx, cancel := context.WithCancel(context.Background())
		c.is(c.during(c.A, func() error { _, err := a.RecvWait(ctx); return err }, cancel), context.Canceled)
	}},
	{"VipRecvWait", "MessageMeanwhile_Success", "2.6 M", allLevels, func(c *Case) {
		a, b := c.pair()
		r := c.post(a, 8)
		c.is(c.during(c.A, func() error { _, err := a.RecvWait(c.ctx()); return err }, func() { c.send(b, 8, 1) }), nil)
		if r.Length != 8 {
			c.Error(r.Length)
		}
	}},
	{"VipRecvWait", "DestroyedMeanwhile_InvalidState", "3 V", anyLevel, func(c *Case) {
		v := c.vi(c.A, nil)
		c.post(v, 0)
		c.is(c.during(c.A, func() error { _, err := v.RecvWait(c.ctx()); return ended(err, v) }, func() { v.Close() }), vipl.ErrClosed)
	}},
	{"VipRecvDone", "DoesNotBlockBehindWait", "9 V", anyLevel, func(c *Case) {
		a, b := c.pair()
		c.post(a, 8)
		c.is(c.during(c.A, func() error { _, err := a.RecvWait(c.ctx()); return err }, func() {
			if _, err := a.RecvDone(); err != vipl.ErrNotDone {
				c.Error(err)
			}
			c.empty(sends(a))
			c.send(b, 8, 1)
		}), nil)
	}},
}

// ended returns the error of the next call if err is the error of a descriptor that was flushed
// because its VI was destroyed.
func ended(err error, v *vipl.VI) error {
	if errors.Is(err, vipl.ErrDescriptor) {
		_, err = v.RecvDone()
	}
	return err
}

var orderRules = []rule{
	{"VipSendDone", "Order_AsPosted", "4 M", allLevels, func(c *Case) {
		a, b := c.pair()
		var rs, ss []*vipl.Descriptor
		for range 30 {
			rs = append(rs, c.post(b, 3000))
		}
		for i := range 30 { // long and short messages, alone and packed
			ss = append(ss, c.send(a, i*i*3, i))
		}
		for i, s := range ss {
			c.sent(a, s, vipl.StatusOpSend)
			if int(s.Length) != i*i*3 {
				c.Error("length", s.Length)
			}
		}
		for i, r := range rs {
			c.gotData(b, r, i*i*3, i)
		}
	}},
	{"VipRecvDone", "Order_AsPosted", "4 M", allLevels, func(c *Case) {
		a, b := c.pair()
		rs := []*vipl.Descriptor{c.post(b, 4), c.post(b, 2000), c.post(b, 1)}
		for i, size := range []int{4, 2000, 1} {
			c.sendNow(a, size, i)
		}
		for i, size := range []int{4, 2000, 1} {
			c.gotData(b, rs[i], size, i)
		}
	}},
	{"VipRecvDone", "HeadOnly_LaterOnesWait", "9 V", allLevels, func(c *Case) {
		a, b := c.pair()
		first, second := c.post(b, 8), c.post(b, 8)
		c.sendNow(a, 8, 1)
		c.gotData(b, first, 8, 1)
		c.pending(receives(b))
		c.sendNow(a, 8, 2)
		c.gotData(b, second, 8, 2)
	}},
	{"VipSendDone", "QueuesAreIndependent", "4 M", allLevels, func(c *Case) {
		a, b := c.pair()
		ra, rb := c.post(a, 8), c.post(b, 8)
		s := c.send(a, 8, 1)
		c.sent(a, s, vipl.StatusOpSend)
		c.pending(receives(a))
		c.gotData(b, rb, 8, 1)
		c.send(b, 8, 2)
		c.gotData(a, ra, 8, 2)
	}},
	{"VipRecvWait", "TwoWaiters_EachTakesOne", "2.6 M", allLevels, func(c *Case) {
		if c.World != nil {
			c.Skip("one process at a time waits on a simulated station")
		}
		a, b := c.pair()
		r, s := c.post(a, 8), c.post(a, 8)
		took := make(chan *vipl.Descriptor, 2)
		ctx := c.ctx()
		wait := func() { d, _ := a.RecvWait(ctx); took <- d }
		go wait()
		go wait()
		c.send(b, 8, 1)
		c.send(b, 8, 2)
		var x, y *vipl.Descriptor
		c.block(c.A, func() { x, y = <-took, <-took })
		if x == y || x != r && x != s || y != r && y != s {
			c.Error("they took", x, y)
		}
	}},
	{"VipSendWait", "WaitersOfBothQueues_BothServed", "2.6 M", allLevels, func(c *Case) {
		if c.World != nil {
			c.Skip("one process at a time waits on a simulated station")
		}
		a, b := c.pair()
		c.post(a, 8)
		ctx := c.ctx()
		done := make(chan error, 1)
		go func() { _, err := a.RecvWait(ctx); done <- err }()
		for i := range 10 {
			r := c.post(b, 8)
			c.sendNow(a, 8, i)
			c.got(b, r, vipl.StatusOpReceive)
		}
		c.send(b, 8, 1)
		c.block(c.A, func() { c.is(<-done, nil) })
	}},
}
