package conformance

import (
	"context"
	"strings"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/vipl"
)

// remains holds a closed NIC and handles of its objects.
type remains struct {
	n  *vipl.NIC
	v  *vipl.VI
	q  *vipl.CQ
	l  *vipl.Listener
	r  *vipl.Request
	h  vipl.MemHandle
	to ethertype.Addr // an address at the other NIC
}

// afterlife is a call on a closed object. It returns ErrClosed, which is an ErrInvalidState, or nil
// if closing has already had the call's effect.
type afterlife struct {
	call, name string
	do         func(x *remains) error
	want       error
}

var afterCloses = []afterlife{
	{"VipCreateVi", "NIC", func(x *remains) error { _, err := x.n.CreateVI(nil, nil, nil); return err }, vipl.ErrClosed},
	{"VipCreateCQ", "NIC", func(x *remains) error { _, err := x.n.CreateCQ(1); return err }, vipl.ErrClosed},
	{"VipCreatePtag", "NIC", func(x *remains) error { _, err := x.n.CreatePtag(); return err }, vipl.ErrClosed},
	{"VipRegisterMem", "NIC", func(x *remains) error { _, err := x.n.RegisterMem(make([]byte, 1), nil); return err }, vipl.ErrClosed},
	{"VipRegisterMem", "NICsOwnMemory", func(x *remains) error { _, _, err := x.n.AllocMem(1, nil); return err }, vipl.ErrClosed},
	{"VipDeregisterMem", "NIC", func(x *remains) error { return x.n.DeregisterMem(x.h) }, vipl.ErrClosed},
	{"VipConnectWait", "Listen", func(x *remains) error { _, err := x.n.Listen(0); return err }, vipl.ErrClosed},
	{"VipConnectWait", "Listener", func(x *remains) error { _, err := x.l.Wait(context.Background()); return err }, vipl.ErrClosed},
	{"VipConnectWait", "ListenerPoll", func(x *remains) error { _, err := x.l.Poll(); return err }, vipl.ErrClosed},
	{"VipConnectWait", "ListenerClose", func(x *remains) error { return x.l.Close() }, nil},
	{"VipConnectAccept", "Request", func(x *remains) error { return x.r.AcceptStart(x.v) }, vipl.ErrClosed},
	{"VipConnectReject", "Request", func(x *remains) error { return x.r.Reject("") }, vipl.ErrClosed},
	{"VipConnectRequest", "VI", func(x *remains) error { return x.v.ConnectStart(x.to, nil) }, vipl.ErrClosed},
	{"VipConnectRequest", "VIBlocking", func(x *remains) error { return x.v.Connect(context.Background(), x.to, nil) }, vipl.ErrClosed},
	{"VipConnectRequest", "VIDone", func(x *remains) error { return x.v.ConnectDone() }, vipl.ErrClosed},
	{"VipDisconnect", "VI", func(x *remains) error { return x.v.Disconnect() }, vipl.ErrClosed},
	{"VipDestroyVi", "VI", func(x *remains) error { return x.v.Close() }, nil},
	{"VipPostSend", "VI", func(x *remains) error { return x.v.PostSend(&vipl.Descriptor{}) }, vipl.ErrClosed},
	{"VipPostRecv", "VI", func(x *remains) error { return x.v.PostRecv(&vipl.Descriptor{}) }, vipl.ErrClosed},
	{"VipSendDone", "VI", func(x *remains) error { _, err := x.v.SendDone(); return err }, vipl.ErrClosed},
	{"VipRecvDone", "VI", func(x *remains) error { _, err := x.v.RecvDone(); return err }, vipl.ErrClosed},
	{"VipSendWait", "VI", func(x *remains) error { _, err := x.v.SendWait(context.Background()); return err }, vipl.ErrClosed},
	{"VipRecvWait", "VI", func(x *remains) error { _, err := x.v.RecvWait(context.Background()); return err }, vipl.ErrClosed},
	{"VipCQDone", "CQ", func(x *remains) error { _, _, err := x.q.Done(); return err }, vipl.ErrClosed},
	{"VipCQWait", "CQ", func(x *remains) error { _, _, err := x.q.Wait(context.Background()); return err }, vipl.ErrClosed},
	{"VipDestroyCQ", "CQ", func(x *remains) error { return x.q.Close() }, nil},
	{"VipQueryVi", "VI", func(x *remains) error { x.v.Query(); x.v.Snapshot(); return x.v.Err() }, nil},
	{"VipQueryNic", "NIC", func(x *remains) error { x.n.Query(); x.n.Snapshot(); x.n.Poll(); return nil }, nil},
	{"VipNSGetHostByName", "NIC", func(x *remains) error { return x.n.Advertise("name", x.n.Addr()) }, vipl.ErrClosed},
}

// closedRules returns a rule for each call on a closed NIC. All rules of one kind of wait use the
// same closed NIC.
func closedRules() (rs []rule) {
	for _, k := range afterCloses {
		outcome := "InvalidState"
		if k.want == nil {
			outcome = "Success"
		}
		rs = append(rs, rule{k.call, "NICClosed_" + k.name + "_" + outcome, "3 V", anyLevel, func(c *Case) {
			x := c.remains()
			err := k.do(x)
			c.is(err, k.want)
			if k.want != nil {
				c.is(err, vipl.ErrInvalidState)
			}
		}})
		if !k.ofVI() {
			continue
		}
		rs = append(rs, rule{k.call, "VIDestroyed_" + k.name + "_" + outcome, "3 V", anyLevel, func(c *Case) {
			v := c.vi(c.A, nil)
			c.is(v.Close(), nil)
			c.is(k.do(&remains{n: c.A, v: v, to: c.listen(c.B).Addr()}), k.want)
		}})
	}
	return rs
}

// ofVI reports whether the call needs only a VI.
func (k *afterlife) ofVI() bool { return strings.HasPrefix(k.name, "VI") }

// remains returns a closed NIC with its handles. On real links all rules share one, because opening
// and closing links takes long.
func (c *Case) remains() *remains {
	c.Helper()
	if c.gone != nil && c.World == nil {
		return c.gone
	}
	e, err := c.openNICs(nil, nil)
	c.is(err, nil)
	defer e.close()
	x := &remains{n: e.nics[0], to: e.nics[1].Addr()}
	x.to.Port++
	x.v, err = x.n.CreateVI(nil, nil, nil)
	c.is(err, nil)
	x.q, err = x.n.CreateCQ(1)
	c.is(err, nil)
	x.l, err = x.n.Listen(0)
	c.is(err, nil)
	x.h, err = x.n.RegisterMem(make([]byte, 8), nil)
	c.is(err, nil)
	x.r = e.request(c, x.l)
	c.is(x.n.Close(), nil)
	c.gone = x
	return x
}

// request sends a connection request from the other NIC to l, and returns it.
func (e *ends) request(c *Case, l *vipl.Listener) (r *vipl.Request) {
	c.Helper()
	v, err := e.nics[1].CreateVI(nil, nil, nil)
	c.is(err, nil)
	c.is(v.ConnectStart(l.Addr(), nil), nil)
	began := e.nics[0].Now()
	for r == nil {
		if r, err = l.Poll(); err == vipl.ErrNotDone {
			e.nics[1].Poll()
			if e.World != nil {
				c.is(e.World.Sleep(time.Millisecond), nil)
			}
		} else {
			c.is(err, nil)
		}
		if e.nics[0].Now()-began > int64(patience) {
			c.Fatal("no request came")
		}
	}
	return r
}
