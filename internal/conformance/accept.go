package conformance

import (
	"errors"
	"strings"
	"time"

	"github.com/bobnet-go/bobnet/vipl"
)

// differs accepts a request with a VI whose attributes do not match. The rule expects the error
// want, which names the attribute. The requester gets no answer, and the request can be accepted
// with another VI.
func differs(name string, want error, change func(a *vipl.Attributes)) rule {
	return rule{"VipConnectAccept", name, "8 V", allLevels, func(c *Case) {
		a := c.vi(c.A, nil)
		r := c.request(a, c.listen(c.B), nil)
		attr := c.attr()
		change(attr)
		b := c.vi(c.B, attr)
		c.is(r.AcceptStart(b), want)
		c.state(b, vipl.StateIdle)
		c.is(r.Accept(c.ctx(), b), want)
		c.drain()
		c.is(a.ConnectDone(), vipl.ErrNotDone)
		b = c.vi(c.B, nil)
		c.is(r.AcceptStart(b), nil)
		c.is(c.outcome(a), nil)
		c.is(c.outcome(b), nil)
		c.works(a, b)
	}}
}

var acceptRules = []rule{
	{"VipConnectAccept", "Matching_BothConnected", "8 V", allLevels, func(c *Case) {
		a, b := c.pair()
		c.works(a, b)
	}},
	{"VipConnectAccept", "OtherRightsAndDepths_Match", "8 V", allLevels, func(c *Case) {
		a, b := c.pairOf(nil, &vipl.Attributes{Reliability: c.level, QueueDepth: 3, PeerTimeout: time.Minute})
		c.works(a, b)
	}},
	differs("OtherLevel_InvalidReliability", vipl.ErrInvalidReliability, otherLevel),
	differs("AnotherLevel_InvalidReliability", vipl.ErrInvalidReliability, func(a *vipl.Attributes) { otherLevel(a); otherLevel(a) }),
	differs("OtherMaxTransferSize_InvalidMTU", vipl.ErrInvalidMTU, func(a *vipl.Attributes) { a.MaxTransferSize = vipl.MaxTransferSize - 1 }),
	differs("OtherQoS_InvalidQoS", vipl.ErrInvalidQoS, func(a *vipl.Attributes) { a.QoS = 1 }),
	{"VipConnectAccept", "OtherNICsVI_InvalidParameter", "3 V", anyLevel, func(c *Case) {
		c.twoNICs("each NIC must refuse VIs of the other")
		r := c.request(c.vi(c.A, nil), c.listen(c.B), nil)
		c.is(r.AcceptStart(c.vi(c.A, nil)), vipl.ErrArgument)
	}},
	{"VipConnectAccept", "Twice_InvalidState", "3 V", anyLevel, func(c *Case) {
		r := c.request(c.vi(c.A, nil), c.listen(c.B), nil)
		c.is(r.AcceptStart(c.vi(c.B, nil)), nil)
		c.is(r.AcceptStart(c.vi(c.B, nil)), vipl.ErrInvalidState)
	}},
	{"VipConnectAccept", "AfterReject_InvalidState", "3 V", anyLevel, func(c *Case) {
		r := c.request(c.vi(c.A, nil), c.listen(c.B), nil)
		c.is(r.Reject(""), nil)
		c.is(r.AcceptStart(c.vi(c.B, nil)), vipl.ErrInvalidState)
	}},
	{"VipConnectAccept", "RequesterGone_Fails", "4 M", allLevels, func(c *Case) {
		a, b := c.vi(c.A, nil), c.vi(c.B, nil)
		r := c.request(a, c.listen(c.B), nil)
		c.is(a.Disconnect(), nil)
		c.drained(c.A)
		c.is(r.AcceptStart(b), nil)
		if c.World == nil { // in real time b would only time out after DefaultConnectTimeout
			c.is(b.Disconnect(), nil)
			c.is(b.ConnectDone(), vipl.ErrDisconnected)
		} else if err := c.outcome(b); !errors.Is(err, vipl.ErrTimeout) && !errors.Is(err, vipl.ErrDisconnected) {
			c.Error(err)
		}
		c.state(b, vipl.StateIdle)
	}},
	{"VipConnectAccept", "ReceivesPostedBefore_Used", "4 M", allLevels, func(c *Case) {
		a, b := c.vi(c.A, nil), c.vi(c.B, nil)
		ra, rb := c.post(a, 100), c.post(b, 100)
		c.join(a, b)
		c.send(a, 60, 1)
		c.send(b, 61, 2)
		c.gotData(b, rb, 60, 1)
		c.gotData(a, ra, 61, 2)
	}},
	{"VipConnectAccept", "ListenerClosedSince_Success", "doc", allLevels, func(c *Case) {
		a, b := c.vi(c.A, nil), c.vi(c.B, nil)
		l := c.listen(c.B)
		r := c.request(a, l, nil)
		c.is(l.Close(), nil)
		c.is(r.AcceptStart(b), nil)
		c.is(c.outcome(a), nil)
		c.works(a, b)
	}},
	{"VipConnectReject", "Requester_Reject", "8 V", allLevels, func(c *Case) {
		a := c.vi(c.A, nil)
		c.is(c.request(a, c.listen(c.B), nil).Reject("no room"), nil)
		err := c.outcome(a)
		c.is(err, vipl.ErrReject)
		if !strings.Contains(err.Error(), "no room") {
			c.Error("the error does not contain the server's text:", err)
		}
		c.state(a, vipl.StateIdle)
	}},
	{"VipConnectReject", "Text_MadePrintable", "doc", anyLevel, func(c *Case) {
		a := c.vi(c.A, nil)
		c.is(c.request(a, c.listen(c.B), nil).Reject("a\nb\x80c"), nil)
		if err := c.outcome(a); !strings.Contains(err.Error(), "a?b?c") {
			c.Error(err)
		}
	}},
	{"VipConnectReject", "LongText_Cut", "doc", anyLevel, func(c *Case) {
		a := c.vi(c.A, nil)
		c.is(c.request(a, c.listen(c.B), nil).Reject(strings.Repeat("x", 5000)), nil)
		if err := c.outcome(a); strings.Count(err.Error(), "x") < vipl.MaxConnData || strings.Count(err.Error(), "x") > vipl.MaxConnData+20 {
			c.Error(err)
		}
	}},
	{"VipConnectReject", "Twice_InvalidState", "3 V", anyLevel, func(c *Case) {
		r := c.request(c.vi(c.A, nil), c.listen(c.B), nil)
		c.is(r.Reject(""), nil)
		c.is(r.Reject(""), vipl.ErrInvalidState)
	}},
	{"VipConnectReject", "AfterAccept_InvalidState", "3 V", anyLevel, func(c *Case) {
		a, b := c.vi(c.A, nil), c.vi(c.B, nil)
		r := c.request(a, c.listen(c.B), nil)
		c.is(r.AcceptStart(b), nil)
		c.is(r.Reject(""), vipl.ErrInvalidState)
		c.is(c.outcome(a), nil)
		c.works(a, b)
	}},
	{"VipConnectReject", "ThenConnect_Success", "4 M", allLevels, func(c *Case) {
		a, b := c.vi(c.A, nil), c.vi(c.B, nil)
		c.is(c.request(a, c.listen(c.B), nil).Reject(""), nil)
		c.is(c.outcome(a), vipl.ErrReject)
		c.join(a, b)
		c.works(a, b)
	}},
	{"VipConnectReject", "SendsFlushedReceivesStay", "4 M", allLevels, func(c *Case) {
		a, b := c.vi(c.A, nil), c.vi(c.B, nil)
		r := c.request(a, c.listen(c.B), nil)
		s, keep := c.send(a, 8, 1), c.post(a, 8)
		c.pending(sends(a))
		c.is(r.Reject(""), nil)
		c.is(c.outcome(a), vipl.ErrReject)
		c.sent(a, s, vipl.StatusOpSend|vipl.StatusFlushed)
		c.pending(receives(a))
		c.join(a, b)
		c.send(b, 5, 2)
		c.gotData(a, keep, 5, 2)
	}},
}
