package conformance

import (
	"errors"

	"github.com/bobnet-go/bobnet/vipl"
)

var stateOrder = []vipl.State{vipl.StateIdle, vipl.StateConnected, vipl.StateConnectPending, vipl.StateError}

var stateNames = [...]string{"Idle", "Connected", "ConnectPending", "Error"}

// inState returns a VI of A in a state. b is its peer at B, if it is connected or has been; l is
// the listener to which it connects, if it is pending.
func (c *Case) inState(s vipl.State) (a, b *vipl.VI, l *vipl.Listener) {
	c.Helper()
	switch s {
	case vipl.StateIdle:
		a = c.vi(c.A, nil)
	case vipl.StateConnectPending:
		a, l = c.vi(c.A, nil), c.listen(c.B)
		c.is(a.ConnectStart(l.Addr(), nil), nil)
	default:
		a, b = c.pair()
	}
	if s == vipl.StateError {
		b.Disconnect()
		c.ended(vipl.ErrDisconnected, a)
	}
	c.state(a, s)
	return a, b, l
}

// transition is a call, with the error that it returns and the next state for each present state.
type transition struct {
	call, name string
	source     string
	do         func(c *Case, a *vipl.VI) error
	want       [4]error
	next       [4]vipl.State
}

var (
	toIdle = [4]vipl.State{}
	stays  = [4]vipl.State{vipl.StateIdle, vipl.StateConnected, vipl.StateConnectPending, vipl.StateError}
	begins = [4]vipl.State{vipl.StateConnectPending, vipl.StateConnected, vipl.StateConnectPending, vipl.StateError}
	isIdle = [4]error{nil, vipl.ErrInvalidState, vipl.ErrInvalidState, vipl.ErrInvalidState}
)

var transitions = []transition{
	{"VipDisconnect", "Any", "4 M", func(c *Case, a *vipl.VI) error { return a.Disconnect() }, [4]error{}, toIdle},
	{"VipDestroyVi", "Any", "2.2 M", func(c *Case, a *vipl.VI) error { return a.Close() }, [4]error{}, toIdle},
	{"VipConnectRequest", "Request", "4 M", func(c *Case, a *vipl.VI) error { return a.ConnectStart(c.listen(c.B).Addr(), nil) }, isIdle, begins},
	{"VipConnectRequest", "BlockingRequest", "4 M", func(c *Case, a *vipl.VI) error {
		if a.State() == vipl.StateIdle {
			return a.ConnectStart(c.listen(c.B).Addr(), nil)
		}
		return a.Connect(c.ctx(), c.listen(c.B).Addr(), nil)
	}, isIdle, begins},
	{"VipConnectAccept", "Accept", "8 V", func(c *Case, a *vipl.VI) error {
		return c.request(c.vi(c.B, nil), c.listen(c.A), nil).AcceptStart(a)
	}, isIdle, begins},
	{"VipPostRecv", "Post", "4 M", func(c *Case, a *vipl.VI) error { return a.PostRecv(c.buffer(a, 8)) }, [4]error{}, stays},
	{"VipPostSend", "Post", "4 M", func(c *Case, a *vipl.VI) error { return a.PostSend(c.buffer(a, 0)) }, [4]error{}, [4]vipl.State{
		vipl.StateIdle, vipl.StateConnected, vipl.StateConnectPending, vipl.StateError}},
	{"VipSendDone", "Empty", "9 V", func(c *Case, a *vipl.VI) error { _, err := a.SendDone(); return err },
		[4]error{vipl.ErrQueueEmpty, vipl.ErrQueueEmpty, vipl.ErrQueueEmpty, vipl.ErrQueueEmpty}, stays},
	{"VipRecvDone", "Empty", "9 V", func(c *Case, a *vipl.VI) error { _, err := a.RecvDone(); return err },
		[4]error{vipl.ErrQueueEmpty, vipl.ErrQueueEmpty, vipl.ErrQueueEmpty, vipl.ErrQueueEmpty}, stays},
	{"VipSendWait", "Empty", "9 V", func(c *Case, a *vipl.VI) error { _, err := a.SendWait(c.ctx()); return err },
		[4]error{vipl.ErrQueueEmpty, vipl.ErrQueueEmpty, vipl.ErrQueueEmpty, vipl.ErrQueueEmpty}, stays},
	{"VipRecvWait", "Empty", "9 V", func(c *Case, a *vipl.VI) error { _, err := a.RecvWait(c.ctx()); return err },
		[4]error{vipl.ErrQueueEmpty, vipl.ErrQueueEmpty, vipl.ErrQueueEmpty, vipl.ErrQueueEmpty}, stays},
}

// stateRules returns a rule for every call in every state.
func stateRules() (rs []rule) {
	for _, t := range transitions {
		for _, s := range stateOrder {
			rs = append(rs, rule{t.call, "State_" + t.name + "_" + stateNames[s] + "_" + t.outcome(s), t.source, allLevels, func(c *Case) {
				a, b, _ := c.inState(s)
				if s == vipl.StateConnected { // a message without a receive would end the connection
					c.is(b.PostRecv(c.buffer(b, 8)), nil)
				}
				c.is(t.do(c, a), t.want[s])
				c.state(a, t.next[s])
				if (a.State() == vipl.StateError) != (a.Err() != nil) {
					c.Error("the error is", a.Err())
				}
			}})
		}
	}
	return append(rs, stateOnly...)
}

func (t *transition) outcome(s vipl.State) string {
	switch err := t.want[s]; {
	case err == nil:
		return "Then" + stateNames[t.next[s]]
	case errors.Is(err, vipl.ErrInvalidState):
		return "InvalidState"
	}
	return "DescriptorError"
}

var stateOnly = []rule{
	{"VipPostSend", "Idle_FlushedAtOnce", "4 M", allLevels, func(c *Case) {
		a, _, _ := c.inState(vipl.StateIdle)
		c.flushed(a)
	}},
	{"VipPostSend", "Error_FlushedAtOnce", "4 M", allLevels, func(c *Case) {
		a, _, _ := c.inState(vipl.StateError)
		c.flushed(a)
	}},
	{"VipPostSend", "ConnectPending_Waits", "4 M", allLevels, func(c *Case) {
		a, _, _ := c.inState(vipl.StateConnectPending)
		c.send(a, 8, 1)
		c.pending(sends(a))
	}},
	{"VipPostSend", "ConnectPendingAbandoned_Flushed", "4 M", allLevels, func(c *Case) {
		a, _, _ := c.inState(vipl.StateConnectPending)
		s, u := c.send(a, 8, 1), c.send(a, 0, 1)
		c.is(a.Disconnect(), nil)
		c.sent(a, s, vipl.StatusOpSend|vipl.StatusFlushed)
		c.sent(a, u, vipl.StatusOpSend|vipl.StatusFlushed)
	}},
	{"VipPostSend", "RDMAWriteInIdle_FlushedWithItsOperation", "6 V", allLevels, func(c *Case) {
		a, _, _ := c.inState(vipl.StateIdle)
		c.sent(a, c.write(a, 8, 1, 1, false), vipl.StatusOpRDMAWrite|vipl.StatusFlushed)
	}},
	{"VipPostRecv", "Idle_StaysPosted", "4 M", allLevels, func(c *Case) {
		a, _, _ := c.inState(vipl.StateIdle)
		c.post(a, 8)
		c.pending(receives(a))
	}},
	{"VipPostRecv", "ConnectPending_StaysPosted", "4 M", allLevels, func(c *Case) {
		a, _, _ := c.inState(vipl.StateConnectPending)
		c.post(a, 8)
		c.pending(receives(a))
	}},
	{"VipPostRecv", "Error_FlushedAtOnce", "4 M", allLevels, func(c *Case) {
		a, _, _ := c.inState(vipl.StateError)
		r := c.post(a, 8)
		d, err := a.RecvDone()
		c.expect(d, err, r, vipl.StatusOpReceive|vipl.StatusFlushed)
	}},
	{"VipPostRecv", "IdleThenDisconnect_Flushed", "4 M", allLevels, func(c *Case) {
		a, _, _ := c.inState(vipl.StateIdle)
		r := c.post(a, 8)
		c.is(a.Disconnect(), nil)
		c.got(a, r, vipl.StatusOpReceive|vipl.StatusFlushed)
	}},
	{"VipDisconnect", "PeerOfPending_ListenerForgets", "4 M", allLevels, func(c *Case) {
		a, _, l := c.inState(vipl.StateConnectPending)
		c.drained(c.A)
		c.is(a.Disconnect(), nil)
		b := c.vi(c.B, nil)
		r := c.next(l) // the request of the attempt that has ended
		c.is(r.Reject(""), nil)
		c.is(c.request(a, l, nil).AcceptStart(b), nil)
		c.is(c.outcome(a), nil)
		c.works(a, b)
	}},
	{"VipQueryVi", "PeerLeaves_Error", "4 M", allLevels, func(c *Case) {
		a, b, _ := c.inState(vipl.StateConnected)
		c.is(b.Disconnect(), nil)
		c.ended(vipl.ErrDisconnected, a)
		c.state(b, vipl.StateIdle)
	}},
	{"VipQueryVi", "Rejected_Idle", "4 M", allLevels, func(c *Case) {
		a, _, l := c.inState(vipl.StateConnectPending)
		c.is(c.next(l).Reject(""), nil)
		c.is(c.outcome(a), vipl.ErrReject)
		c.state(a, vipl.StateIdle)
		c.is(a.Err(), nil)
	}},
	{"VipQueryVi", "Accepted_Connected", "4 M", allLevels, func(c *Case) {
		a, _, l := c.inState(vipl.StateConnectPending)
		b := c.vi(c.B, nil)
		c.is(c.next(l).AcceptStart(b), nil)
		c.is(c.outcome(a), nil)
		c.is(c.outcome(b), nil)
		c.state(a, vipl.StateConnected)
		c.state(b, vipl.StateConnected)
	}},
}

// flushed posts sends that must complete at once, in order, with the status flushed.
func (c *Case) flushed(a *vipl.VI) {
	c.Helper()
	for i := range 3 {
		s := c.send(a, i*1000, i)
		d, err := a.SendDone()
		c.expect(d, err, s, vipl.StatusOpSend|vipl.StatusFlushed)
		if s.Length != 0 {
			c.Error("length", s.Length)
		}
	}
	s, u := c.send(a, 1, 1), c.send(a, 2, 1)
	c.sent(a, s, vipl.StatusOpSend|vipl.StatusFlushed)
	c.sent(a, u, vipl.StatusOpSend|vipl.StatusFlushed)
}
