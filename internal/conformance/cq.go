package conformance

import (
	"context"
	"time"

	"github.com/bobnet-go/bobnet/vipl"
)

// entry waits for the next entry of a completion queue.
func (c *Case) entry(n *vipl.NIC, q *vipl.CQ, want *vipl.VI, wantRecv bool) {
	c.Helper()
	var v *vipl.VI
	var recv bool
	var err error
	if c.wait == Block {
		c.block(n, func() { v, recv, err = q.Wait(c.ctx()) })
	} else {
		began := c.A.Now()
		for step := time.Duration(0); ; c.pass(&step) {
			if v, recv, err = q.Done(); err != vipl.ErrNotDone {
				break
			}
			c.other(n).Poll()
			if c.late(began) {
				c.Fatal("no entry has arrived")
			}
		}
	}
	if err != nil || v != want || recv != wantRecv {
		c.Fatalf("entry of VI %p, receive queue %v, %v; want VI %p, receive queue %v", v, recv, err, want, wantRecv)
	}
}

// noEntry checks that a completion queue is empty after all frames in flight have arrived.
func (c *Case) noEntry(q *vipl.CQ) {
	c.Helper()
	c.drain()
	if v, _, err := q.Done(); v != nil || err != vipl.ErrNotDone {
		c.Fatalf("an entry of VI %p, %v; want ErrNotDone", v, err)
	}
}

// bound returns two connected VIs; both queues of b are bound to a CQ.
func (c *Case) bound(entries int) (a, b *vipl.VI, q *vipl.CQ) {
	c.Helper()
	q = c.cq(c.B, entries)
	a, b = c.vi(c.A, nil), c.viOn(c.B, nil, q, q)
	c.join(a, b)
	return a, b, q
}

func createsCQ(name string, entries int, want error) rule {
	return rule{"VipCreateCQ", name, "2.7 V", anyLevel, func(c *Case) {
		q, err := c.A.CreateCQ(entries)
		c.is(err, want)
		if err == nil {
			c.noEntry(q)
			c.is(q.Close(), nil)
		}
	}}
}

var cqRules = []rule{
	createsCQ("OneEntry_Success", 1, nil),
	createsCQ("MaxEntries_Success", vipl.MaxCQEntries, nil),
	createsCQ("OverMaxEntries_InvalidParameter", vipl.MaxCQEntries+1, vipl.ErrArgument),
	createsCQ("NoEntries_InvalidParameter", 0, vipl.ErrArgument),
	createsCQ("NegativeEntries_InvalidParameter", -1, vipl.ErrArgument),
	{"VipCreateCQ", "MaxCQ_Resource", "3 V, 11 V", anyLevel, func(c *Case) {
		q := c.cq(c.A, 1)
		c.is(q.Close(), nil)
		c.is(q.Close(), nil) // counts once
		var all []*vipl.CQ
		q, err := c.A.CreateCQ(1)
		for ; err == nil && len(all) <= maxCQs; q, err = c.A.CreateCQ(1) {
			all = append(all, q)
		}
		c.is(err, vipl.ErrResource)
		if len(all) != c.A.Query().MaxCQ {
			c.Errorf("%d completion queues were made, want %d", len(all), c.A.Query().MaxCQ)
		}
		for _, q := range all {
			c.is(q.Close(), nil)
		}
		c.cq(c.A, 1)
	}},
	{"VipDestroyCQ", "Unused_Success", "2.7 V", anyLevel, func(c *Case) { c.is(c.cq(c.A, 1).Close(), nil) }},
	{"VipDestroyCQ", "Twice_Success", "doc", anyLevel, func(c *Case) {
		q := c.cq(c.A, 1)
		c.is(q.Close(), nil)
		c.is(q.Close(), nil)
	}},
	{"VipDestroyCQ", "SendQueueBound_Resource", "3 V", anyLevel, func(c *Case) {
		q := c.cq(c.A, 1)
		v := c.viOn(c.A, nil, q, nil)
		c.is(q.Close(), vipl.ErrResource)
		c.is(v.Close(), nil)
		c.is(q.Close(), nil)
	}},
	{"VipDestroyCQ", "RecvQueueBound_Resource", "3 V", anyLevel, func(c *Case) {
		q := c.cq(c.A, 1)
		v, w := c.viOn(c.A, nil, nil, q), c.viOn(c.A, nil, q, q)
		c.is(q.Close(), vipl.ErrResource)
		c.is(v.Close(), nil)
		c.is(q.Close(), vipl.ErrResource)
		c.is(w.Close(), nil)
		c.is(q.Close(), nil)
	}},
	{"VipDestroyCQ", "RefusedWhileBound_StillWorks", "3 V", allLevels, func(c *Case) {
		a, b, q := c.bound(4)
		c.is(q.Close(), vipl.ErrResource)
		c.post(b, 8)
		c.send(a, 8, 1)
		c.entry(c.B, q, b, true)
	}},
	{"VipDestroyCQ", "Waiting_InvalidState", "2.7 V", anyLevel, func(c *Case) {
		q := c.cq(c.A, 1)
		c.is(c.during(c.A, func() error { _, _, err := q.Wait(c.ctx()); return err }, func() { q.Close() }), vipl.ErrClosed)
	}},
	{"VipCQDone", "Empty_NotDone", "2.7 V", anyLevel, func(c *Case) { c.noEntry(c.cq(c.A, 1)) }},
	{"VipCQDone", "Destroyed_InvalidState", "3 V", anyLevel, func(c *Case) {
		q := c.cq(c.A, 1)
		c.is(q.Close(), nil)
		_, _, err := q.Done()
		c.is(err, vipl.ErrInvalidState)
	}},
	{"VipCQDone", "Send_NamesSendQueue", "9 V", allLevels, func(c *Case) {
		a, b, q := c.bound(4)
		c.post(a, 8)
		s := c.send(b, 8, 1)
		c.entry(c.B, q, b, false)
		d, err := b.SendDone()
		c.expect(d, err, s, vipl.StatusOpSend)
		c.noEntry(q)
	}},
	{"VipCQDone", "Receive_NamesRecvQueue", "9 V", allLevels, func(c *Case) {
		a, b, q := c.bound(4)
		r := c.post(b, 8)
		c.send(a, 8, 1)
		c.entry(c.B, q, b, true)
		d, err := b.RecvDone()
		c.expect(d, err, r, vipl.StatusOpReceive)
		c.noEntry(q)
	}},
	{"VipCQDone", "RDMAWrite_NamesSendQueue", "9 V", allLevels, func(c *Case) {
		a, b, q := c.bound(4)
		buf, h := c.mem(c.A, 64, remoteAccess())
		c.write(b, 8, vipl.VirtualAddress(buf), h, false)
		c.entry(c.B, q, b, false)
		c.alive(a)
	}},
	{"VipCQDone", "RemoteRDMAWrite_NoEntry", "9 M", allLevels, func(c *Case) {
		a, b, q := c.bound(4)
		buf, h := c.mem(c.B, 64, remoteAccess())
		c.post(b, 8)
		c.sent(a, c.write(a, 8, vipl.VirtualAddress(buf), h, false), vipl.StatusOpRDMAWrite)
		c.noEntry(q)
	}},
	{"VipCQDone", "RemoteRDMAWriteImmediate_NamesRecvQueue", "9 M", allLevels, func(c *Case) {
		a, b, q := c.bound(4)
		buf, h := c.mem(c.B, 64, remoteAccess())
		c.post(b, 8)
		c.write(a, 8, vipl.VirtualAddress(buf), h, true)
		c.entry(c.B, q, b, true)
	}},
	{"VipCQDone", "Entries_InOrderOfCompletion", "9 V", reliable, func(c *Case) {
		a, b, q := c.bound(16)
		for range 4 {
			c.post(a, 8)
			c.post(b, 8)
		}
		order := []bool{true, false, true, true, false, false}
		for i, recv := range order {
			if recv {
				c.sendNow(a, 1, i)
			} else {
				c.send(b, 1, i)
			}
			want := uint64(i + 1)
			c.await("the completion", func() bool { s := b.Snapshot(); return s.Receives+s.SendsDone == want })
		}
		for _, recv := range order {
			c.entry(c.B, q, b, recv)
		}
		c.noEntry(q)
	}},
	{"VipCQDone", "OneEntryForEachCompletion", "9 V", allLevels, func(c *Case) {
		a, b, q := c.bound(16)
		for range 10 {
			c.post(b, 8)
		}
		for i := range 10 {
			c.send(a, 8, i)
		}
		for range 10 {
			c.entry(c.B, q, b, true)
			d, err := b.RecvDone()
			c.expect(d, err, d, vipl.StatusOpReceive)
		}
		c.noEntry(q)
	}},
	{"VipCQDone", "SeveralVIs_EachNamed", "9 V", allLevels, func(c *Case) {
		q := c.cq(c.B, 16)
		var as, bs [3]*vipl.VI
		for i := range as {
			as[i], bs[i] = c.vi(c.A, nil), c.viOn(c.B, nil, nil, q)
			c.join(as[i], bs[i])
			c.post(bs[i], 8)
		}
		for _, i := range []int{2, 0, 1} {
			c.send(as[i], 8, i)
			c.await("the message", func() bool { return bs[i].Snapshot().Receives == 1 })
		}
		for _, i := range []int{2, 0, 1} {
			c.entry(c.B, q, bs[i], true)
		}
	}},
	{"VipCQDone", "TwoCQs_EachItsQueue", "2.2 V", allLevels, func(c *Case) {
		sq, rq := c.cq(c.B, 4), c.cq(c.B, 4)
		a, b := c.vi(c.A, nil), c.viOn(c.B, nil, sq, rq)
		c.join(a, b)
		c.post(a, 8)
		c.post(b, 8)
		c.send(a, 8, 1)
		c.entry(c.B, rq, b, true)
		c.noEntry(sq)
		c.send(b, 8, 1)
		c.entry(c.B, sq, b, false)
		c.noEntry(rq)
	}},
	{"VipCQDone", "UnboundQueue_NoEntry", "2.2 V", allLevels, func(c *Case) {
		rq := c.cq(c.B, 4)
		a, b := c.vi(c.A, nil), c.viOn(c.B, nil, nil, rq)
		c.join(a, b)
		c.post(a, 8)
		c.sendNow(b, 8, 1)
		c.noEntry(rq)
	}},
	{"VipCQDone", "Flushed_EntriesToo", "9 V", allLevels, func(c *Case) {
		_, b, q := c.bound(16)
		c.post(b, 8)
		c.post(b, 8)
		c.is(b.Disconnect(), nil)
		c.send(b, 8, 1) // flushed at once
		for _, recv := range []bool{true, true, false} {
			c.entry(c.B, q, b, recv)
		}
		c.noEntry(q)
	}},
	{"VipCQDone", "Full_EntryLostDescriptorKept", "11 V", allLevels, func(c *Case) {
		a, b, q := c.bound(2)
		before := c.B.Snapshot().CQOverruns
		rs := c.postMany(b, 5)
		for i := range 5 {
			c.send(a, 1, i)
		}
		c.await("the messages", func() bool { return b.Snapshot().Receives == 5 })
		if n := c.B.Snapshot().CQOverruns - before; n != 3 {
			c.Errorf("%d overruns counted, want 3", n)
		}
		c.entry(c.B, q, b, true)
		c.entry(c.B, q, b, true)
		c.noEntry(q)
		for i, r := range rs {
			c.gotData(b, r, 1, i)
		}
	}},
	{"VipCQDone", "EntriesWrapAround", "2.7 V", allLevels, func(c *Case) {
		a, b, q := c.bound(3)
		for i := range 10 {
			r := c.post(b, 8)
			c.send(a, 8, i)
			c.entry(c.B, q, b, true)
			c.gotData(b, r, 8, i)
		}
	}},
	{"VipCQDone", "TakenBefore_EntryStays", "9 V", allLevels, func(c *Case) {
		a, b, q := c.bound(4)
		r := c.post(b, 8)
		c.send(a, 8, 1)
		c.gotData(b, r, 8, 1)
		c.entry(c.B, q, b, true)
		c.empty(receives(b))
	}},
	{"VipCQWait", "TimeIsUp_Timeout", "2.7 V", anyLevel, func(c *Case) {
		q := c.cq(c.A, 1)
		c.timesOut(func(ctx context.Context) error { _, _, err := q.Wait(ctx); return err })
	}},
	{"VipCQWait", "Cancelled_Timeout", "2.7 V", anyLevel, func(c *Case) {
		q := c.cq(c.A, 1)
		c.cancelled(func(ctx context.Context) error { _, _, err := q.Wait(ctx); return err })
	}},
	{"VipCQWait", "EntryThere_AtOnce", "2.7 V", anyLevel, func(c *Case) {
		q := c.cq(c.A, 1)
		v := c.viOn(c.A, nil, q, nil)
		c.send(v, 1, 1)
		w, recv, err := q.Wait(context.Background())
		if w != v || recv || err != nil {
			c.Error(w, recv, err)
		}
	}},
	{"VipCQWait", "EntryMeanwhile_Success", "2.7 V", allLevels, func(c *Case) {
		a, b, q := c.bound(1)
		c.post(b, 8)
		c.is(c.during(c.B, func() error { _, _, err := q.Wait(c.ctx()); return err }, func() { c.send(a, 8, 1) }), nil)
	}},
	{"VipCQWait", "Destroyed_InvalidState", "3 V", anyLevel, func(c *Case) {
		q := c.cq(c.A, 1)
		c.is(q.Close(), nil)
		_, _, err := q.Wait(c.ctx())
		c.is(err, vipl.ErrInvalidState)
	}},
}
