package conformance

import (
	"sync"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/vipl"
)

// alarms collects the asynchronous errors of a NIC while a rule runs.
type alarms struct {
	mu  sync.Mutex
	got []vipl.AsyncError
}

// watch installs a handler at n until the rule ends.
func (c *Case) watch(n *vipl.NIC) *alarms {
	c.Helper()
	a := &alarms{}
	n.SetErrorHandler(func(e vipl.AsyncError) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.got = append(a.got, e)
	})
	c.cleanup = append(c.cleanup, func() { n.SetErrorHandler(nil) })
	return a
}

// watchBoth watches both NICs, which may be the same NIC.
func (c *Case) watchBoth() (mine, theirs *alarms) {
	c.Helper()
	mine = c.watch(c.A)
	if c.self() {
		return mine, mine
	}
	return mine, c.watch(c.B)
}

// with returns the errors with a code so far. If the NIC has both ends of the connection, it
// returns only those of v.
func (c *Case) with(a *alarms, code vipl.ErrorCode, v *vipl.VI) (list []vipl.AsyncError) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, e := range a.got {
		if e.Code == code && (e.VI == v || !c.self()) {
			list = append(list, e)
		}
	}
	return list
}

// alarmed waits for an error with a code, and checks the NIC, VI, resource and operation that it
// names.
func (c *Case) alarmed(a *alarms, code vipl.ErrorCode, n *vipl.NIC, v *vipl.VI, about vipl.ResourceCode, op vipl.Status) vipl.AsyncError {
	c.Helper()
	c.await("asynchronous error "+code.String(), func() bool { return len(c.with(a, code, v)) > 0 })
	e := c.with(a, code, v)[0]
	if e.NIC != n || e.VI != v || e.Resource != about || e.Op != op || e.Err == nil {
		c.Fatalf("%+v; want it about %v of VI %p with operation %#x", e, about, v, uint32(op))
	}
	return e
}

// quiet checks that no error with a code has occurred after all frames in flight have arrived.
func (c *Case) quiet(a *alarms, code vipl.ErrorCode, v *vipl.VI) {
	c.Helper()
	c.drain()
	if list := c.with(a, code, v); len(list) > 0 {
		c.Fatalf("%v was raised: %v", code, list[0])
	}
}

// postDescRules returns rules about refused descriptors on both queues, and the other rules about
// errors.
func postDescRules() (rs []rule) {
	for _, p := range postings {
		rs = append(rs,
			rule{"VipErrorCallback", "POST_DESC_" + p.call + "_Refused", "7 V", anyLevel, func(c *Case) {
				v, a := c.vi(c.A, nil), c.watch(c.A)
				d := &vipl.Descriptor{Segs: []vipl.Segment{{Data: make([]byte, 1), Handle: 77}}}
				c.is(p.post(v, d), vipl.ErrArgument)
				e := c.alarmed(a, vipl.CodePostDesc, c.A, v, vipl.ResourceDescriptor, p.op)
				c.is(e, vipl.ErrArgument)
				if e.Descriptor != d {
					c.Error("another descriptor")
				}
			}},
			rule{"VipErrorCallback", "VI_OVERRUN_" + p.call + "_QueueFull", "7 V", anyLevel, func(c *Case) {
				v, a := c.vi(c.A, &vipl.Attributes{QueueDepth: 1}), c.watch(c.A)
				c.is(p.post(v, &vipl.Descriptor{}), nil)
				c.is(p.post(v, &vipl.Descriptor{}), p.full)
				c.is(c.alarmed(a, vipl.CodeVIOverrun, c.A, v, vipl.ResourceVI, p.op), vipl.ErrResource)
			}})
	}
	return append(rs, errorRules...)
}

var errorRules = []rule{
	{"VipErrorCallback", "CONN_LOST_PeerDisconnects", "7 V, 8 V", allLevels, func(c *Case) {
		a, b := c.pair()
		mine, theirs := c.watchBoth()
		c.is(b.Disconnect(), nil)
		c.is(c.alarmed(mine, vipl.CodeConnLost, c.A, a, vipl.ResourceVI, 0), vipl.ErrDisconnected)
		c.state(a, vipl.StateError)
		c.quiet(theirs, vipl.CodeConnLost, b)
		if n := len(c.with(mine, vipl.CodeConnLost, a)); n != 1 {
			c.Error("it was told", n, "times")
		}
	}},
	{"VipErrorCallback", "CONN_LOST_Break_BothTold", "7 V", reliable, func(c *Case) {
		a, b := c.pair()
		mine, theirs := c.watchBoth()
		c.send(a, 8, 1)
		c.is(c.alarmed(mine, vipl.CodeConnLost, c.A, a, vipl.ResourceVI, 0), vipl.ErrRecvQueue)
		c.is(c.alarmed(theirs, vipl.CodeConnLost, c.B, b, vipl.ResourceVI, 0), vipl.ErrRecvQueue)
	}},
	{"VipErrorCallback", "RECVQ_EMPTY_NoReceive", "7 V", allLevels, func(c *Case) {
		a, b := c.pair()
		mine, theirs := c.watchBoth()
		c.send(a, 8, 1)
		c.alarmed(theirs, vipl.CodeRecvqEmpty, c.B, b, vipl.ResourceVI, vipl.StatusOpReceive)
		c.quiet(mine, vipl.CodeRecvqEmpty, a)
	}},
	{"VipErrorCallback", "RECVQ_EMPTY_ReceivePosted_Silent", "7 V", allLevels, func(c *Case) {
		a, b := c.pair()
		theirs := c.watch(c.B)
		c.post(b, 8)
		c.send(a, 8, 1)
		c.quiet(theirs, vipl.CodeRecvqEmpty, b)
	}},
	{"VipErrorCallback", "VI_OVERRUN_CQFull", "7 V", anyLevel, func(c *Case) {
		q, a := c.cq(c.A, 1), c.watch(c.A)
		v := c.viOn(c.A, nil, q, nil)
		c.send(v, 1, 1)
		c.send(v, 1, 2)
		if e := c.alarmed(a, vipl.CodeVIOverrun, c.A, v, vipl.ResourceCQ, 0); e.CQ != q {
			c.Error("another CQ")
		}
	}},
	{"VipErrorCallback", "RDMAW_PROT_ForbiddenWrite", "7 V", allLevels, func(c *Case) {
		a, b := c.pair()
		mine, theirs := c.watchBoth()
		buf, h := c.mem(c.B, 8, nil)
		c.write(a, 8, vipl.VirtualAddress(buf), h, false)
		c.is(c.alarmed(theirs, vipl.CodeRDMAWProt, c.B, b, vipl.ResourceVI, vipl.StatusOpRemoteRDMAWrite), vipl.ErrRDMA)
		c.quiet(mine, vipl.CodeRDMAWProt, a)
	}},
	{"VipErrorCallback", "RDMAW_PROT_WithImmediate_StatusInReceiveInstead", "7 V", allLevels, func(c *Case) {
		a, b := c.pair()
		theirs := c.watch(c.B)
		buf, h := c.mem(c.B, 8, nil)
		r := c.post(b, 0)
		c.write(a, 8, vipl.VirtualAddress(buf), h, true)
		c.got(b, r, vipl.StatusOpRemoteRDMAWrite|vipl.StatusRDMAProtError)
		c.quiet(theirs, vipl.CodeRDMAWProt, b)
	}},
	{"VipErrorCallback", "RDMAR_PROT_ForbiddenRead", "7 M", reliable, func(c *Case) {
		a, b := c.pair()
		mine, theirs := c.watchBoth()
		buf, h := c.mem(c.B, 8, nil)
		c.read(a, 8, vipl.VirtualAddress(buf), h)
		c.is(c.alarmed(theirs, vipl.CodeRDMARProt, c.B, b, vipl.ResourceVI, vipl.StatusOpRDMARead), vipl.ErrRDMA)
		c.quiet(mine, vipl.CodeRDMARProt, a)
	}},
	{"VipErrorCallback", "COMP_PROT_SegmentsAltered", "7 M", allLevels, func(c *Case) {
		c.reopen(nil) // the region stays in use for ever, because its descriptor never completes
		a, b := c.pair()
		theirs := c.watch(c.B)
		r := c.post(b, 8)
		r.Segs[0].Handle = 0x77777 // callers must not do this
		b.Query()                  // takes the NIC's lock, because the race detector cannot see that the frame arrives later
		c.send(a, 8, 1)
		if e := c.alarmed(theirs, vipl.CodeCompProt, c.B, b, vipl.ResourceDescriptor, vipl.StatusOpReceive); e.Descriptor != r {
			c.Error("another descriptor")
		}
	}},
	{"VipErrorCallback", "RDMA_TRANSPORT_BrokenUnderWrite", "7 M", reliable, func(c *Case) {
		shut := c.gated()
		a, _ := c.pairOf(c.mortal(), nil)
		mine := c.watch(c.A)
		buf, h := c.mem(c.B, 8, remoteAccess())
		shut.Store(0)
		d := c.write(a, 8, vipl.VirtualAddress(buf), h, false)
		if e := c.alarmed(mine, vipl.CodeRDMATransport, c.A, a, vipl.ResourceVI, vipl.StatusOpRDMAWrite); e.Descriptor != d {
			c.Error("another descriptor")
		}
	}},
	{"VipErrorCallback", "CATASTROPHIC_LinkDies", "7 M", anyLevel, func(c *Case) {
		c.reopen(nil)
		mine := c.watch(c.A)
		c.is(c.Links[0].Close(), nil)
		c.is(c.alarmed(mine, vipl.CodeCatastrophic, c.A, nil, vipl.ResourceNIC, 0), vipl.ErrLink)
	}},
	{"VipErrorCallback", "Counted_ByCode", "doc", anyLevel, func(c *Case) {
		v := c.vi(c.A, nil)
		before := c.A.Snapshot().Errors[vipl.CodePostDesc]
		v.PostSend(&vipl.Descriptor{Op: 99})
		v.PostSend(&vipl.Descriptor{Op: 99})
		if n := c.A.Snapshot().Errors[vipl.CodePostDesc] - before; n != 2 {
			c.Error(n, "counted, want 2")
		}
	}},
	{"VipErrorCallback", "HandlerReplaced_OldOneSilent", "7 V", anyLevel, func(c *Case) {
		v, old := c.vi(c.A, nil), c.watch(c.A)
		now := c.watch(c.A)
		v.PostSend(&vipl.Descriptor{Op: 99})
		c.alarmed(now, vipl.CodePostDesc, c.A, v, vipl.ResourceDescriptor, 0)
		c.A.SetErrorHandler(nil)
		v.PostSend(&vipl.Descriptor{Op: 99})
		c.quiet(old, vipl.CodePostDesc, v)
		if n := len(c.with(now, vipl.CodePostDesc, v)); n != 1 {
			c.Error("told", n, "times, want once")
		}
	}},
	{"VipErrorCallback", "HandlerMayCallAnything", "doc", allLevels, func(c *Case) {
		a, b := c.pair()
		done := make(chan error, 1)
		c.A.SetErrorHandler(func(e vipl.AsyncError) {
			if e.Code == vipl.CodeConnLost {
				done <- e.VI.Disconnect()
			}
		})
		c.cleanup = append(c.cleanup, func() { c.A.SetErrorHandler(nil) })
		c.is(b.Disconnect(), nil)
		c.await("the handler", func() bool { return len(done) > 0 })
		c.is(<-done, nil)
		c.state(a, vipl.StateIdle)
	}},
}

// lossyWrites are rules about RDMA writes of the unreliable level that arrive in
// part: the second of three frames is lost.
var lossyWrites = []rule{
	{"VipErrorCallback", "RDMAW_ABORT_PartLost", "7 V", unreliable, func(c *Case) {
		c.reopen(func(side int, l transport.Link) transport.Link { return &holeLink{Link: l} })
		a, b := c.pair()
		theirs := c.watch(c.B)
		buf, h := c.mem(c.B, 1<<20, remoteAccess())
		n := 3 * c.dataMax(ethertype.RDMASize)
		c.write(a, n, vipl.VirtualAddress(buf), h, false)
		c.drained(c.A)
		c.write(a, 8, vipl.VirtualAddress(buf), h, false) // by which it is known
		c.alarmed(theirs, vipl.CodeRDMAWAbort, c.B, b, vipl.ResourceVI, vipl.StatusOpRemoteRDMAWrite)
		c.alive(a, b)
	}},
}

// holeLink loses the second frame of each RDMA write.
type holeLink struct {
	transport.Link
	h ethertype.Header
}

func (l *holeLink) Send(frames []transport.Frame) (int, error) {
	for i := range frames {
		if _, err := l.h.Parse(frames[i].AppendTo(nil)); err == nil && l.h.Kind == ethertype.KindRDMAWrite && l.h.Offset > 0 && int(l.h.Offset) == int(l.h.Size)-ethertype.RDMASize {
			continue
		}
		if n, err := l.Link.Send(frames[i : i+1]); n == 0 {
			return i, err
		}
	}
	return len(frames), nil
}
