package conformance

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/drops"
	"github.com/bobnet-go/bobnet/internal/link/optional"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/fault"
	"github.com/bobnet-go/bobnet/vipl"
)

// localLink makes a link's connection to its own host, which a wrapper hides, available for frames
// of the usual length.
type localLink struct {
	transport.Link
	inner optional.Local
}

func (l localLink) LocalMTU() int                                  { return l.Info().MTU }
func (l localLink) LocalSlots() int                                { return l.inner.LocalSlots() }
func (l localLink) OnDeparture(f func(transport.PortRange, error)) { l.inner.OnDeparture(f) }

// KeepLocal returns wrapper. If l, the wrapped link, is an optional.Local, so is the result.
func KeepLocal(l, wrapper transport.Link) transport.Link {
	if inner, ok := l.(optional.Local); ok {
		return localLink{wrapper, inner}
	}
	return wrapper
}

// gateLink is a link that loses frames longer than a limit.
type gateLink struct {
	transport.Link
	shut *atomic.Int64 // the limit in bytes; 0 loses all frames
}

func (l gateLink) Send(frames []transport.Frame) (int, error) {
	for i := range frames {
		if int64(frames[i].Len()) > l.shut.Load() {
			continue
		}
		if n, err := l.Link.Send(frames[i : i+1]); n == 0 {
			return i, err
		}
	}
	return len(frames), nil
}

// gated gives the rule its own NICs, whose links lose frames longer than the stored length, in both
// directions.
func (c *Case) gated() *atomic.Int64 {
	c.Helper()
	shut := new(atomic.Int64)
	shut.Store(ethertype.MaxFrame)
	c.reopen(func(side int, l transport.Link) transport.Link { return gateLink{l, shut} })
	return shut
}

// faulty gives the rule its own NICs, whose links have faults. Each link has a separate seed.
func (c *Case) faulty(o fault.Options) {
	c.Helper()
	c.reopen(func(side int, l transport.Link) transport.Link {
		o.Seed = uint64(side) + 1
		return fault.New(l, o)
	})
}

// mortal returns attributes of the rule's level with a short PeerTimeout.
func (c *Case) mortal() *vipl.Attributes {
	a := c.attr()
	if a.PeerTimeout = 40 * time.Millisecond; c.World != nil {
		a.PeerTimeout = time.Second
	}
	return a
}

var faults = []struct {
	name string
	o    fault.Options
}{
	{"Loss", fault.Options{Drop: 0.15}},
	{"Duplication", fault.Options{Dup: 0.4}},
	{"Reordering", fault.Options{Reorder: 0.3, ReorderBy: 5, ReorderWait: 200 * time.Microsecond}},
	{"Corruption", fault.Options{Corrupt: 0.15}},
	{"All", fault.Options{Drop: 0.05, Dup: 0.1, Reorder: 0.1, Corrupt: 0.05, ReorderWait: 200 * time.Microsecond}},
}

func lossRules() (rs []rule) {
	for _, f := range faults {
		rs = append(rs,
			rule{"VipPostSend", "Under" + f.name + "_ExactlyOnceInOrder", "10 V", reliable, func(c *Case) {
				c.faulty(f.o)
				c.exactlyOnce()
			}},
			rule{"VipPostSend", "Under" + f.name + "_AtMostOnceInOrder", "10 V", unreliable, func(c *Case) {
				c.faulty(f.o)
				c.atMostOnce()
			}},
			rule{"VipPostSend", "RDMAWriteUnder" + f.name + "_InPlaceInOrder", "10 M", reliable, func(c *Case) {
				c.faulty(f.o)
				c.writesInOrder()
			}},
			rule{"VipConnectRequest", "Under" + f.name + "_Connects", "8 V", allLevels, func(c *Case) {
				c.faulty(f.o)
				c.pair()
			}})
	}
	return rs
}

// messages is the number of messages that the rules about faults send.
const messages = 40

func messageSize(i int) int { return 4 + i*i*i%3977 }

// exactlyOnce sends messages, and checks that each arrives once, intact and in order.
func (c *Case) exactlyOnce() {
	c.Helper()
	a, b := c.pair()
	var rs, ss []*vipl.Descriptor
	for range messages {
		rs = append(rs, c.post(b, 4000))
	}
	for i := range messages {
		ss = append(ss, c.send(a, messageSize(i), i))
	}
	for i := range messages {
		began := c.A.Now()
		c.gotData(b, rs[i], messageSize(i), i)
		c.sent(a, ss[i], vipl.StatusOpSend)
		c.moved(began)
	}
	c.empty(receives(b))
}

// atMostOnce sends messages on the unreliable level, and checks that those that arrive are intact,
// in order and not duplicated.
func (c *Case) atMostOnce() {
	c.Helper()
	a, b := c.pair()
	var rs []*vipl.Descriptor
	for range messages + 10 {
		rs = append(rs, c.post(b, 4000))
	}
	for i := range messages {
		c.sendNow(a, messageSize(i), i)
	}
	c.drain()
	last, got := -1, 0
	for _, r := range rs {
		d, err := b.RecvDone()
		if err == vipl.ErrNotDone {
			break
		}
		c.expect(d, err, r, vipl.StatusOpReceive)
		for last++; last < messages && (messageSize(last) != int(d.Length) || !same(d.Segs[0].Data[:d.Length], last)); last++ {
		}
		if last >= messages {
			c.Fatalf("receive %d does not hold a message that was sent after the previous one", got)
		}
		got++
	}
	if got == 0 {
		c.Error("no message arrived, so the rule tested nothing")
	}
	c.state(a, vipl.StateConnected)
	c.state(b, vipl.StateConnected)
	if a.Snapshot().Retransmits != 0 {
		c.Error("the unreliable level has retransmitted frames")
	}
}

// writesInOrder repeatedly writes to the same memory and then sends a message, which must not
// arrive before the write.
func (c *Case) writesInOrder() {
	c.Helper()
	a, b := c.pair()
	buf, h := c.mem(c.B, 4000, remoteAccess())
	for i := range 15 {
		began := c.A.Now()
		r := c.post(b, 8)
		s := c.buffer(a, 4000)
		fill(s.Segs[0].Data, i)
		s.Op, s.Remote = vipl.OpRDMAWrite, vipl.RemoteSegment{Addr: vipl.VirtualAddress(buf), Handle: h}
		c.is(a.PostSend(s), nil)
		u := c.send(a, 4, i)
		c.gotData(b, r, 4, i)
		if !same(buf, i) {
			c.Fatal("message", i, "has arrived before the write that was posted before it")
		}
		c.sent(a, s, vipl.StatusOpRDMAWrite)
		c.sent(a, u, vipl.StatusOpSend)
		c.moved(began)
	}
}

// moved checks, in virtual time, that a transfer has taken less than the keep-alive interval: loss
// alone must not stop a transfer for so long.
func (c *Case) moved(began int64) {
	c.Helper()
	if took := time.Duration(c.A.Now() - began); c.World != nil && took > vipl.DefaultPeerTimeout/5 {
		c.Errorf("the transfer stopped for %v", took)
	}
}

var faultRules = append(lossRules(), []rule{
	{"VipPostSend", "PeerSilent_TransportErrorThenFlushed", "10 M", reliable, func(c *Case) {
		shut := c.gated()
		a, b := c.pairOf(c.mortal(), nil)
		r := c.post(a, 8)
		c.post(b, 500)
		c.post(b, 500)
		shut.Store(200) // the peers hear each other until the sends are under way
		s, u := c.send(a, 500, 1), c.send(a, 500, 2)
		shut.Store(0)
		c.sent(a, s, vipl.StatusOpSend|vipl.StatusTransportError)
		c.sent(a, u, vipl.StatusOpSend|vipl.StatusFlushed)
		c.got(a, r, vipl.StatusOpReceive|vipl.StatusFlushed)
		c.ended(vipl.ErrUnreachable, a)
	}},
	{"VipRecvWait", "PeerSilent_FlushedWithinPeerTimeout", "10 M", reliable, func(c *Case) {
		shut := c.gated()
		a, _ := c.pairOf(c.mortal(), nil)
		r := c.post(a, 8)
		shut.Store(0)
		c.got(a, r, vipl.StatusOpReceive|vipl.StatusFlushed)
		c.ended(vipl.ErrUnreachable, a)
	}},
	{"VipPostSend", "PeerSilent_Unreliable_NoBreak", "10 M", unreliable, func(c *Case) {
		shut := c.gated()
		a, b := c.pairOf(c.mortal(), nil)
		r := c.post(b, 8)
		shut.Store(0)
		c.sent(a, c.send(a, 8, 1), vipl.StatusOpSend)
		shut.Store(ethertype.MaxFrame)
		c.drain()
		c.sent(a, c.send(a, 7, 2), vipl.StatusOpSend)
		c.gotData(b, r, 7, 2)
		c.alive(a, b)
	}},
	{"VipPostSend", "SilenceOver_Resumes", "10 V", reliable, func(c *Case) {
		shut := c.gated()
		a, b := c.pair()
		r := c.post(b, 5000)
		shut.Store(0)
		s := c.send(a, 5000, 1)
		a.Flush()
		shut.Store(ethertype.MaxFrame)
		c.gotData(b, r, 5000, 1)
		c.sent(a, s, vipl.StatusOpSend)
		if a.Snapshot().Retransmits == 0 {
			c.Error("no frame was sent again: nothing was lost")
		}
	}},
	{"VipConnectRequest", "LongFramesVanish_InvalidMTU", "3 V", allLevels, func(c *Case) {
		shut := c.gated()
		shut.Store(int64(c.A.Query().NativeMTU))
		a := c.vi(c.A, nil)
		l := c.listen(c.B)
		for d := 80 * time.Millisecond; ; d *= 2 { // on a busy machine short frames are slow, too
			if err := c.shake(a, l, d); !errors.Is(err, vipl.ErrTimeout) || d > 5*time.Second {
				c.is(err, vipl.ErrInvalidMTU)
				break
			}
		}
		c.state(a, vipl.StateIdle)
	}},
	{"VipConnectRequest", "SmallerMTUThere_SmallerUsed", "3 V", allLevels, func(c *Case) {
		c.reopen(func(side int, l transport.Link) transport.Link { return shortLink{l, min(700+side*300, l.Info().MTU)} })
		a, b := c.pair()
		c.works(a, b)
		r := c.post(b, 9000)
		c.send(a, 9000, 1)
		c.gotData(b, r, 9000, 1)
		s := c.post(a, 9000)
		c.send(b, 9000, 2)
		c.gotData(a, s, 9000, 2)
		if n := c.dropped(c.A, drops.Short) + c.dropped(c.B, drops.Short); n > 0 {
			c.Error(n, "frames were cut short")
		}
	}},
	{"VipErrorCallback", "LinkDies_ConnectionEnds", "7 V", allLevels, func(c *Case) {
		c.reopen(nil)
		a, _ := c.pair()
		r := c.post(a, 8)
		c.is(c.Links[0].Close(), nil)
		c.got(a, r, vipl.StatusOpReceive|vipl.StatusFlushed)
		if err := a.Err(); !errors.Is(err, vipl.ErrLink) || a.State() != vipl.StateError {
			c.Error(a.State(), err)
		}
	}},
	{"VipErrorCallback", "LinkDies_AttemptEnds", "7 V", allLevels, func(c *Case) {
		c.reopen(nil)
		a := c.vi(c.A, nil)
		c.is(a.ConnectStart(c.listen(c.B).Addr(), nil), nil)
		c.is(c.Links[0].Close(), nil)
		c.is(c.outcome(a), vipl.ErrLink)
		c.state(a, vipl.StateIdle)
	}},
	{"VipErrorCallback", "LinkDies_CQWaitReturns", "7 V", anyLevel, func(c *Case) {
		c.reopen(nil)
		q := c.cq(c.A, 1)
		c.is(c.during(c.A, func() error { _, _, err := q.Wait(c.ctx()); return err }, func() { c.Links[0].Close() }), vipl.ErrLink)
	}},
}...)

// shake connects a to l, for at most the real time d, and accepts the request with a new VI.
func (c *Case) shake(a *vipl.VI, l *vipl.Listener, d time.Duration) error {
	c.Helper()
	ctx, cancel := c.within(d)
	defer cancel()
	b := c.vi(c.B, nil)
	err, _ := c.both(c.A, func() error { return a.Connect(ctx, l.Addr(), nil) }, func() error {
		r, err := l.Wait(c.ctx())
		if err != nil {
			return err
		}
		return r.AcceptStart(b)
	})
	return err
}
