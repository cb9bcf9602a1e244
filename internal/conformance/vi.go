package conformance

import (
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/vipl"
)

// creates changes the rule's attributes by change, and checks that CreateVI then returns the error
// want.
func creates(name, source string, want error, change func(c *Case, a *vipl.Attributes)) rule {
	return rule{"VipCreateVi", name, source, anyLevel, func(c *Case) {
		a := c.attr()
		change(c, a)
		v, err := c.A.CreateVI(a, nil, nil)
		c.is(err, want)
		if err == nil {
			c.state(v, vipl.StateIdle)
			c.is(v.Close(), nil)
		} else if v != nil {
			c.Error("CreateVI returned both a VI and an error")
		}
	}}
}

var viRules = []rule{
	creates("Level1_Success", "10 V", nil, func(c *Case, a *vipl.Attributes) { a.Reliability, a.EnableRDMARead = 1, false }),
	creates("Level1WithRDMARead_InvalidRDMARead", "10 V", vipl.ErrInvalidRDMARead, func(c *Case, a *vipl.Attributes) {
		a.Reliability, a.EnableRDMARead = 1, true
	}),
	creates("Level2_Success", "10 V", nil, func(c *Case, a *vipl.Attributes) { a.Reliability = 2 }),
	creates("Level4_Success", "10 V", nil, func(c *Case, a *vipl.Attributes) { a.Reliability = 4 }),
	creates("LevelZero_Default", "doc", nil, func(c *Case, a *vipl.Attributes) { a.Reliability = 0 }),
	creates("TwoLevels_InvalidReliability", "3 V", vipl.ErrInvalidReliability, func(c *Case, a *vipl.Attributes) { a.Reliability = 3 }),
	creates("UnknownLevel_InvalidReliability", "3 V", vipl.ErrInvalidReliability, func(c *Case, a *vipl.Attributes) { a.Reliability = 8 }),
	creates("MaxTransferSizeOne_Success", "3 V", nil, func(c *Case, a *vipl.Attributes) { a.MaxTransferSize = 1 }),
	creates("MaxTransferSizeMax_Success", "3 V", nil, func(c *Case, a *vipl.Attributes) { a.MaxTransferSize = vipl.MaxTransferSize }),
	creates("MaxTransferSizeOver_InvalidMTU", "3 V", vipl.ErrInvalidMTU, func(c *Case, a *vipl.Attributes) { a.MaxTransferSize = vipl.MaxTransferSize + 1 }),
	creates("QueueDepthOne_Success", "11 V", nil, func(c *Case, a *vipl.Attributes) { a.QueueDepth = 1 }),
	creates("QueueDepthMax_Success", "11 V", nil, func(c *Case, a *vipl.Attributes) { a.QueueDepth = vipl.MaxQueueDepth }),
	creates("QueueDepthOver_InvalidParameter", "11 V", vipl.ErrArgument, func(c *Case, a *vipl.Attributes) { a.QueueDepth = vipl.MaxQueueDepth + 1 }),
	creates("QueueDepthNegative_InvalidParameter", "11 V", vipl.ErrArgument, func(c *Case, a *vipl.Attributes) { a.QueueDepth = -1 }),
	creates("PeerTimeoutNegative_InvalidParameter", "doc", vipl.ErrArgument, func(c *Case, a *vipl.Attributes) { a.PeerTimeout = -time.Second }),
	creates("UnknownPtag_InvalidPtag", "3 V", vipl.ErrInvalidPtag, func(c *Case, a *vipl.Attributes) { a.Ptag = c.ptag(c.A) + 1 }),
	creates("OwnPtag_Success", "11 V", nil, func(c *Case, a *vipl.Attributes) { a.Ptag = c.ptag(c.A) }),
	creates("DestroyedPtag_InvalidPtag", "3 V", vipl.ErrInvalidPtag, func(c *Case, a *vipl.Attributes) {
		a.Ptag = c.ptag(c.A)
		c.is(c.A.DestroyPtag(a.Ptag), nil)
	}),
	{"VipCreateVi", "NilAttributes_Defaults", "doc", anyLevel, func(c *Case) {
		v, err := c.A.CreateVI(nil, nil, nil)
		c.is(err, nil)
		defer v.Close()
		a := attributes(v)
		if a.Reliability != reliability.ReliableDelivery || a.MaxTransferSize != vipl.MaxTransferSize || !a.EnableRDMAWrite || a.Ptag != 0 ||
			a.QueueDepth != vipl.DefaultQueueDepth || a.PeerTimeout != vipl.DefaultPeerTimeout {
			c.Errorf("%+v", a)
		}
	}},
	{"VipCreateVi", "ZeroAttributes_Resolved", "doc", anyLevel, func(c *Case) {
		a := attributes(c.vi(c.A, &vipl.Attributes{}))
		if a.Reliability != reliability.ReliableDelivery || a.MaxTransferSize != vipl.MaxTransferSize || a.QueueDepth != vipl.DefaultQueueDepth || a.EnableRDMAWrite {
			c.Errorf("%+v", a)
		}
	}},
	{"VipCreateVi", "OneCQForBoth_Success", "2.2 V", anyLevel, func(c *Case) { q := c.cq(c.A, 1); c.viOn(c.A, nil, q, q) }},
	{"VipCreateVi", "TwoCQs_Success", "2.2 V", anyLevel, func(c *Case) { c.viOn(c.A, nil, c.cq(c.A, 1), c.cq(c.A, 1)) }},
	{"VipCreateVi", "SendCQOnly_Success", "2.2 V", anyLevel, func(c *Case) { c.viOn(c.A, nil, c.cq(c.A, 1), nil) }},
	{"VipCreateVi", "RecvCQOnly_Success", "2.2 V", anyLevel, func(c *Case) { c.viOn(c.A, nil, nil, c.cq(c.A, 1)) }},
	{"VipCreateVi", "OtherNICsSendCQ_InvalidParameter", "3 V", anyLevel, func(c *Case) {
		c.twoNICs("each NIC must refuse objects of the other")
		_, err := c.A.CreateVI(nil, c.cq(c.B, 1), nil)
		c.is(err, vipl.ErrArgument)
	}},
	{"VipCreateVi", "OtherNICsRecvCQ_InvalidParameter", "3 V", anyLevel, func(c *Case) {
		c.twoNICs("each NIC must refuse objects of the other")
		_, err := c.A.CreateVI(nil, nil, c.cq(c.B, 1))
		c.is(err, vipl.ErrArgument)
	}},
	{"VipCreateVi", "DestroyedCQ_InvalidParameter", "3 V", anyLevel, func(c *Case) {
		q := c.cq(c.A, 1)
		c.is(q.Close(), nil)
		_, err := c.A.CreateVI(nil, q, nil)
		c.is(err, vipl.ErrArgument)
		_, err = c.A.CreateVI(nil, nil, q)
		c.is(err, vipl.ErrArgument)
	}},
	{"VipCreateVi", "Address_OwnPortOfTheNIC", "13 V", anyLevel, func(c *Case) {
		v, w := c.vi(c.A, nil), c.vi(c.A, nil)
		q := c.A.Query()
		if v.Local().MAC != q.Addr.MAC || !q.Ports.Contains(v.Local().Port) || v.Local().Port == q.Ports.Lo || v.Local() == w.Local() {
			c.Errorf("addresses %v and %v on NIC %v %v", v.Local(), w.Local(), q.Addr, q.Ports)
		}
		if v.NIC() != c.A {
			c.Error("it belongs to another NIC")
		}
	}},
	{"VipCreateVi", "PortsExhausted_Resource", "11 V", anyLevel, func(c *Case) {
		var last *vipl.VI
		for range c.A.Query().MaxVI {
			v, err := c.A.CreateVI(nil, nil, nil)
			c.is(err, nil)
			c.cleanup = append(c.cleanup, func() { v.Close() })
			last = v
		}
		_, err := c.A.CreateVI(nil, nil, nil)
		c.is(err, vipl.ErrResource)
		c.is(last.Close(), nil) // frees the VI's port
		c.vi(c.A, nil)
	}},
	{"VipQueryVi", "Idle", "2.2 V", allLevels, func(c *Case) {
		v := c.vi(c.A, nil)
		c.state(v, vipl.StateIdle)
		if v.Err() != nil || v.Remote() != (ethertype.Addr{}) || attributes(v).Reliability != c.level {
			c.Error(v.Err(), v.Remote(), attributes(v))
		}
	}},
	{"VipQueryVi", "Attributes_AsGiven", "2.2 V", anyLevel, func(c *Case) {
		want := vipl.Attributes{Reliability: unreliable, MaxTransferSize: 12345, QoS: 7, Ptag: c.ptag(c.A), EnableRDMAWrite: true,
			ReadDepth: 5, QueueDepth: 33, WholeCRC: true, PeerTimeout: 4 * time.Second, ConnectTimeout: 3 * time.Second}
		if got := attributes(c.vi(c.A, &want)); got != want {
			c.Errorf("%+v, want %+v", got, want)
		}
	}},
	{"VipQueryVi", "Queues_EmptyAtFirst", "2.2 V", anyLevel, func(c *Case) { c.queues(c.vi(c.A, nil), true, true) }},
	{"VipQueryVi", "Queues_RecvPosted", "2.2 V", anyLevel, func(c *Case) {
		v := c.vi(c.A, nil)
		c.post(v, 8)
		c.queues(v, true, false)
	}},
	{"VipQueryVi", "Queues_DoneButNotTaken", "2.2 V", allLevels, func(c *Case) {
		a, b := c.pair()
		r, s := c.post(b, 8), c.send(a, 8, 1)
		c.await("the message", func() bool { return b.Snapshot().Receives == 1 && a.Snapshot().SendsDone == 1 })
		c.queues(a, false, true)
		c.queues(b, true, false)
		c.sent(a, s, vipl.StatusOpSend)
		c.got(b, r, vipl.StatusOpReceive)
		c.queues(a, true, true)
		c.queues(b, true, true)
	}},
	{"VipQueryVi", "Connected_Remote", "2.2 V", allLevels, func(c *Case) {
		a, b := c.pair()
		if a.Remote() != b.Local() || b.Remote() != a.Local() {
			c.Errorf("a %v sees %v, b %v sees %v", a.Local(), a.Remote(), b.Local(), b.Remote())
		}
	}},
	{"VipQueryVi", "Error_SaysWhy", "2.2 V", allLevels, func(c *Case) {
		a, b := c.pair()
		b.Disconnect()
		c.ended(vipl.ErrDisconnected, a)
		if err, ok := a.Err().(*vipl.ConnError); !ok || err.Local != a.Local() || err.Remote != b.Local() {
			c.Error(a.Err())
		}
	}},
	{"VipQueryVi", "AfterError_ErrIsCleared", "4 M", allLevels, func(c *Case) {
		a, b := c.pair()
		b.Disconnect()
		c.ended(vipl.ErrDisconnected, a)
		c.is(a.Disconnect(), nil)
		c.is(a.Err(), nil)
	}},
}

var viDestroyRules = []rule{
	{"VipDestroyVi", "Idle_Success", "2.2 M", anyLevel, func(c *Case) {
		v := c.vi(c.A, nil)
		c.is(v.Destroy(), nil)
		c.is(v.Destroy(), vipl.ErrClosed)
	}},
	{"VipDestroyVi", "Posted_ErrorResource", "2.2 M", allLevels, func(c *Case) {
		a, _ := c.pair()
		for _, v := range []*vipl.VI{c.vi(c.A, nil), a} { // idle, and connected
			r := c.post(v, 8)
			c.is(v.Destroy(), vipl.ErrResource)
			c.is(v.Disconnect(), nil)
			c.is(v.Destroy(), vipl.ErrResource) // the receive is flushed, but the program has not taken it yet
			d, err := v.RecvDone()
			c.is(err, vipl.ErrDescriptor)
			if d != r {
				c.Error("the descriptor is not the one that was posted")
			}
			c.is(v.Destroy(), nil)
		}
	}},
	{"VipDestroyVi", "Connected_InvalidState", "2.2 M", allLevels, func(c *Case) {
		a, b := c.pair()
		c.is(a.Destroy(), vipl.ErrInvalidState)
		c.works(a, b) // nothing has changed
	}},
	{"VipDestroyVi", "Close_Success", "doc", anyLevel, func(c *Case) { c.is(c.vi(c.A, nil).Close(), nil) }},
	{"VipDestroyVi", "Twice_Success", "doc", anyLevel, func(c *Case) {
		v := c.vi(c.A, nil)
		c.is(v.Close(), nil)
		c.is(v.Close(), nil)
	}},
	{"VipDestroyVi", "Connected_PeerIsTold", "doc", allLevels, func(c *Case) {
		a, b := c.pair()
		c.is(a.Close(), nil)
		c.ended(vipl.ErrDisconnected, b)
	}},
	{"VipDestroyVi", "Connecting_PeerIsTold", "doc", allLevels, func(c *Case) {
		a, b := c.vi(c.A, nil), c.vi(c.B, nil)
		r := c.request(a, c.listen(c.B), nil)
		c.is(r.AcceptStart(b), nil)
		c.await("a's connection", func() bool { return a.ConnectDone() != vipl.ErrNotDone })
		c.is(a.Close(), nil)
		c.await("b's failure", func() bool { return b.State() != vipl.StateConnectPending && b.State() != vipl.StateConnected })
	}},
	{"VipDestroyVi", "Posted_GivenBack", "doc", allLevels, func(c *Case) {
		a, b := c.pair()
		r := c.post(a, 8)
		c.is(a.Close(), nil)
		r.Segs = nil
		c.is(b.PostRecv(r), nil)
	}},
	{"VipDestroyVi", "Posted_RegionIsFree", "doc", allLevels, func(c *Case) {
		a, _ := c.pair()
		r := c.post(a, 8)
		c.is(c.A.DeregisterMem(r.Segs[0].Handle), vipl.ErrInvalidState)
		c.is(a.Close(), nil)
		c.is(c.A.DeregisterMem(r.Segs[0].Handle), nil)
	}},
	{"VipDestroyVi", "CQEntries_Dropped", "doc", anyLevel, func(c *Case) {
		q := c.cq(c.A, 8)
		v, w := c.viOn(c.A, nil, q, nil), c.viOn(c.A, nil, q, nil)
		for _, x := range []*vipl.VI{v, w, v, v, w} { // sends of an idle VI complete at once
			c.send(x, 1, 1)
		}
		c.is(v.Close(), nil)
		for range 2 {
			if x, _, err := q.Done(); x != w || err != nil {
				c.Error("an entry of the destroyed VI:", err)
			}
		}
		_, _, err := q.Done()
		c.is(err, vipl.ErrNotDone)
	}},
	{"VipDestroyVi", "Waiting_InvalidState", "doc", anyLevel, func(c *Case) {
		v := c.vi(c.A, nil)
		c.post(v, 8)
		c.is(c.during(c.A, func() error {
			for {
				if d, err := v.RecvWait(c.ctx()); d == nil {
					return err
				}
			}
		}, func() { v.Close() }), vipl.ErrClosed)
	}},
	{"VipDestroyVi", "Statistics_Kept", "doc", allLevels, func(c *Case) {
		a, b := c.pair()
		before := c.A.Snapshot().Closed.SendsDone
		c.works(a, b)
		c.is(a.Close(), nil)
		if got := c.A.Snapshot().Closed.SendsDone - before; got != 1 {
			c.Errorf("%d sends in the sum over closed VIs, want 1", got)
		}
	}},
}
