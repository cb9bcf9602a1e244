package conformance

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/vipl"
)

var requestRules = []rule{
	{"VipConnectRequest", "NoListener_NoMatch", "8 M", allLevels, func(c *Case) {
		v := c.vi(c.A, nil)
		err := c.dial(v, ethertype.Addr{MAC: c.B.Addr().MAC, Port: c.B.Query().Ports.Hi})
		c.is(err, vipl.ErrNoMatch)
		var conn *vipl.ConnError
		if !errors.As(err, &conn) || conn.Local != v.Local() || conn.Remote.MAC != c.B.Addr().MAC {
			c.Error(err)
		}
		c.state(v, vipl.StateIdle)
	}},
	{"VipConnectRequest", "PortOfVI_NoMatch", "8 M", anyLevel, func(c *Case) {
		c.is(c.dial(c.vi(c.A, nil), c.vi(c.B, nil).Local()), vipl.ErrNoMatch)
	}},
	{"VipConnectRequest", "NobodyThere_Timeout", "8 V", allLevels, func(c *Case) { c.nobody() }},
	{"VipConnectRequest", "NotAccepted_Timeout", "8 V", allLevels, func(c *Case) {
		v, l := c.vi(c.A, nil), c.listen(c.B)
		c.connectTimeout(v, l.Addr())
	}},
	{"VipConnectRequest", "Cancelled_Timeout", "8 V", anyLevel, func(c *Case) {
		v, l := c.vi(c.A, nil), c.listen(c.B)
		c.cancelled(func(ctx context.Context) error { return v.Connect(ctx, l.Addr(), nil) })
		c.state(v, vipl.StateIdle)
	}},
	{"VipConnectRequest", "GroupAddress_InvalidParameter", "3 V", anyLevel, func(c *Case) {
		v := c.vi(c.A, nil)
		c.is(v.ConnectStart(ethertype.Addr{MAC: ethertype.Broadcast, Port: 2000}, nil), vipl.ErrArgument)
		c.state(v, vipl.StateIdle)
	}},
	{"VipConnectRequest", "ZeroAddress_InvalidParameter", "3 V", anyLevel, func(c *Case) {
		c.is(c.vi(c.A, nil).ConnectStart(ethertype.Addr{}, nil), vipl.ErrArgument)
	}},
	{"VipConnectRequest", "TooMuchData_InvalidParameter", "doc", anyLevel, func(c *Case) {
		v, l := c.vi(c.A, nil), c.listen(c.B)
		c.is(v.ConnectStart(l.Addr(), bytes.Repeat([]byte{1}, vipl.MaxConnData+1)), vipl.ErrArgument)
		c.state(v, vipl.StateIdle)
	}},
	{"VipConnectRequest", "Pending_NotDone", "3 V", anyLevel, func(c *Case) {
		v, l := c.vi(c.A, nil), c.listen(c.B)
		c.is(v.ConnectStart(l.Addr(), nil), nil)
		c.is(v.ConnectDone(), vipl.ErrNotDone)
		c.state(v, vipl.StateConnectPending)
	}},
	{"VipConnectRequest", "NeverAsked_InvalidState", "doc", anyLevel, func(c *Case) {
		c.is(c.vi(c.A, nil).ConnectDone(), vipl.ErrInvalidState)
	}},
	{"VipConnectRequest", "OutcomeOfSuccess_Stays", "doc", anyLevel, func(c *Case) {
		a, _ := c.pair()
		c.is(a.ConnectDone(), nil)
		c.is(a.ConnectDone(), nil)
	}},
	{"VipConnectRequest", "OutcomeOfFailure_Stays", "doc", anyLevel, func(c *Case) {
		v := c.vi(c.A, nil)
		to := ethertype.Addr{MAC: c.B.Addr().MAC, Port: c.B.Query().Ports.Hi}
		c.is(c.dial(v, to), vipl.ErrNoMatch)
		c.is(v.ConnectDone(), vipl.ErrNoMatch)
		c.is(v.ConnectDone(), vipl.ErrNoMatch)
	}},
	{"VipConnectRequest", "OutcomeOfNextAttempt_Replaces", "doc", anyLevel, func(c *Case) {
		a, b := c.vi(c.A, nil), c.vi(c.B, nil)
		c.is(c.dial(a, ethertype.Addr{MAC: c.B.Addr().MAC, Port: c.B.Query().Ports.Hi}), vipl.ErrNoMatch)
		c.join(a, b)
		c.is(a.ConnectDone(), nil)
	}},
	{"VipConnectRequest", "SendsPostedMeanwhile_GoFirst", "4 M", allLevels, func(c *Case) {
		a, b := c.vi(c.A, nil), c.vi(c.B, nil)
		first, second := c.post(b, 100), c.post(b, 100)
		r := c.request(a, c.listen(c.B), nil)
		s := c.send(a, 40, 1)
		c.is(r.AcceptStart(b), nil)
		c.is(c.outcome(a), nil)
		c.is(c.outcome(b), nil)
		t := c.send(a, 41, 2)
		c.gotData(b, first, 40, 1)
		c.gotData(b, second, 41, 2)
		c.sent(a, s, vipl.StatusOpSend)
		c.sent(a, t, vipl.StatusOpSend)
	}},
	{"VipConnectRequest", "ManyVIsToOneListener_Success", "doc", allLevels, func(c *Case) {
		l := c.listen(c.B)
		for range 12 {
			a, b := c.vi(c.A, nil), c.vi(c.B, nil)
			c.is(c.request(a, l, nil).AcceptStart(b), nil)
			c.is(c.outcome(a), nil)
			c.is(c.outcome(b), nil)
			c.works(a, b)
		}
	}},
	{"VipConnectRequest", "BothDirectionsAtOnce_TwoConnections", "doc", allLevels, func(c *Case) {
		a, b, p, q := c.vi(c.A, nil), c.vi(c.B, nil), c.vi(c.A, nil), c.vi(c.B, nil)
		la, lb := c.listen(c.A), c.listen(c.B)
		c.is(a.ConnectStart(lb.Addr(), nil), nil)
		c.is(q.ConnectStart(la.Addr(), nil), nil)
		c.is(c.next(lb).AcceptStart(b), nil)
		c.is(c.next(la).AcceptStart(p), nil)
		for _, v := range []*vipl.VI{a, b, p, q} {
			c.is(c.outcome(v), nil)
		}
		c.works(a, b)
		c.works(p, q)
	}},
	{"VipConnectRequest", "RemoteAttributes_AreOfTheAcceptingVI", "2.4 V", allLevels, func(c *Case) {
		mine, other := c.unlikes()[0], c.unlikes()[1]
		a, b := c.vi(c.A, mine), c.vi(c.B, other)
		c.remoteIs(a.RemoteAttributes(), &vipl.Attributes{})
		c.join(a, b)
		c.remoteIs(a.RemoteAttributes(), other)
		c.remoteIs(b.RemoteAttributes(), mine)
	}},
}

// unlikes returns the attributes of two VIs that can connect. All attributes that may differ do
// differ.
func (c *Case) unlikes() [2]*vipl.Attributes {
	return [2]*vipl.Attributes{
		{Reliability: c.level, MaxTransferSize: 777, QoS: 9, EnableRDMAWrite: true, ReadDepth: 3, QueueDepth: 7},
		{Reliability: c.level, MaxTransferSize: 777, QoS: 9, EnableRDMARead: c.level != unreliable, ReadDepth: 4, WholeCRC: true, PeerTimeout: time.Minute},
	}
}

// remoteIs checks that the attributes that a peer has reported equal a, except those that a peer
// does not report.
func (c *Case) remoteIs(got vipl.Attributes, a *vipl.Attributes) {
	c.Helper()
	want := *a
	want.QueueDepth, want.PeerTimeout = 0, 0
	if got != want {
		c.Errorf("the peer has %+v, want %+v", got, want)
	}
}

// nobody connects to a station that does not exist, and expects a timeout.
func (c *Case) nobody() {
	c.Helper()
	to := ethertype.Addr{MAC: ethertype.MAC{2, 0xEE, 0xEE, 0xEE, 0xEE, 0xEE}, Port: 2000}
	c.connectTimeout(c.vi(c.A, nil), to)
}

// connectTimeout checks that an attempt to connect ends with ErrTimeout: after
// DefaultConnectTimeout in virtual time, or when its context ends in real time.
func (c *Case) connectTimeout(v *vipl.VI, to ethertype.Addr) {
	c.Helper()
	if c.World != nil {
		c.is(c.dial(v, to), vipl.ErrTimeout)
	} else {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		defer cancel()
		var err error
		c.block(c.A, func() { err = v.Connect(ctx, to, nil) })
		c.is(err, vipl.ErrTimeout)
	}
	c.state(v, vipl.StateIdle)
}
