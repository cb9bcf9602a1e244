package conformance

import (
	"github.com/bobnet-go/bobnet/internal/drops"
	"github.com/bobnet-go/bobnet/vipl"
)

// levelRules contains the rows of the table of section 10 that apply to links without loss.
// faultRules contains the rows about loss.
var levelRules = []rule{
	{"VipPostSend", "NoReceive_Unreliable_DroppedNoBreak", "10 M", unreliable, func(c *Case) {
		a, b := c.pair()
		s, u := c.send(a, 8, 1), c.send(a, 5000, 2)
		c.sent(a, s, vipl.StatusOpSend)
		c.sent(a, u, vipl.StatusOpSend)
		c.alive(a, b)
		if c.dropped(c.B, drops.NoReceive) < 2 {
			c.Error("the drops were not counted")
		}
		c.works(a, b)
	}},
	{"VipPostSend", "NoReceive_Breaks", "10 V", reliable, func(c *Case) { c.noReceive(8) }},
	{"VipPostSend", "NoReceiveForLongMessage_Breaks", "10 V", reliable, func(c *Case) { c.noReceive(20_000) }},
	{"VipPostSend", "NoReceiveForEmptyMessage_Breaks", "10 V", reliable, func(c *Case) { c.noReceive(0) }},
	{"VipPostSend", "NoReceive_EarlierMessagesArrive", "10 V", reliable, func(c *Case) {
		a, b := c.pair()
		r := c.post(b, 100)
		s, u, w := c.send(a, 50, 1), c.send(a, 51, 2), c.send(a, 52, 3)
		c.gotData(b, r, 50, 1)
		c.sent(a, s, vipl.StatusOpSend)
		c.sent(a, u, vipl.StatusOpSend|c.blamed())
		c.sent(a, w, vipl.StatusOpSend|vipl.StatusFlushed)
		c.ended(vipl.ErrRecvQueue, a, b)
	}},
	{"VipPostSend", "TooLong_Unreliable_LengthErrorNoBreak", "10 M", unreliable, func(c *Case) { c.tooLongLoose(9, 8) }},
	{"VipPostSend", "LongTooLong_Unreliable_LengthErrorNoBreak", "10 M", unreliable, func(c *Case) { c.tooLongLoose(9000, 8999) }},
	{"VipPostSend", "TooLongForEmptyReceive_Unreliable_LengthError", "10 M", unreliable, func(c *Case) { c.tooLongLoose(1, 0) }},
	{"VipPostSend", "TooLong_Breaks", "10 V", reliable, func(c *Case) { c.tooLong(9, 8) }},
	{"VipPostSend", "LongTooLong_Breaks", "10 V", reliable, func(c *Case) { c.tooLong(9000, 8999) }},
	{"VipPostSend", "TooLongForEmptyReceive_Breaks", "10 V", reliable, func(c *Case) { c.tooLong(1, 0) }},
	{"VipPostSend", "TooLongInPackedFrame_EarlierArrive", "10 V", allLevels, func(c *Case) { c.tooLongPacked() }},
	{"VipPostSend", "ExactFit_Success", "10 V", allLevels, func(c *Case) {
		a, b := c.pair()
		r := c.post(b, 3000)
		c.send(a, 3000, 1)
		c.gotData(b, r, 3000, 1)
		c.alive(a, b)
	}},
	{"VipSendDone", "Unreliable_CompletesWithoutPeer", "10 M", unreliable, func(c *Case) {
		a, _ := c.pair()
		s := c.send(a, 5000, 1) // the peer has posted no receive, and a does not wait for the peer
		d, err := a.SendDone()
		c.expect(d, err, s, vipl.StatusOpSend)
	}},
	{"VipSendDone", "Reception_CompletedMeansReceived", "10 M", reception, func(c *Case) {
		a, b := c.pair()
		r := c.post(b, 20_000)
		s := c.send(a, 20_000, 1)
		c.sent(a, s, vipl.StatusOpSend)
		c.B.Snapshot() // as in written
		if !same(r.Segs[0].Data, 1) {
			c.Error("the send has completed, but its data are not in the peer's memory")
		}
	}},
	{"VipSendDone", "RDMAWrite_CompletedMeansWritten", "10 V", reception, func(c *Case) {
		a, b := c.pair()
		buf, h := c.mem(c.B, 30_020, remoteAccess())
		s := c.write(a, 30_000, vipl.VirtualAddress(buf)+7, h, false)
		c.sent(a, s, vipl.StatusOpRDMAWrite)
		c.written(buf, 30_000)
		c.alive(b)
	}},
	{"VipErrorCallback", "ErrorState_PeersPostsFlushed", "4 M", allLevels, func(c *Case) {
		a, b := c.pair()
		b.Disconnect()
		c.ended(vipl.ErrDisconnected, a)
		c.flushed(a)
		r := c.post(a, 8)
		c.got(a, r, vipl.StatusOpReceive|vipl.StatusFlushed)
	}},
	{"VipErrorCallback", "Break_OtherVIsLive", "10 V", reliable, func(c *Case) {
		a, b := c.pair()
		x, y := c.pair()
		c.send(a, 8, 1)
		c.ended(vipl.ErrRecvQueue, a, b)
		c.alive(x, y)
		c.works(x, y)
	}},
	{"VipErrorCallback", "AfterBreak_ReconnectWorks", "4 M", reliable, func(c *Case) {
		a, b := c.pair()
		s := c.send(a, 8, 1)
		c.ended(vipl.ErrRecvQueue, a, b)
		c.sent(a, s, vipl.StatusOpSend|c.blamed())
		c.is(a.Disconnect(), nil)
		c.is(b.Disconnect(), nil)
		c.join(a, b)
		c.works(a, b)
	}},
	{"VipErrorCallback", "Break_Counted", "doc", reliable, func(c *Case) {
		a, b := c.pair()
		before := c.B.Snapshot().Failures
		c.send(a, 8, 1)
		c.ended(vipl.ErrRecvQueue, a, b)
		if n := c.B.Snapshot().Failures - before; n != 1 {
			c.Errorf("%d failures counted, want 1", n)
		}
	}},
}

// noReceive sends a message for which the peer has posted no receive.
func (c *Case) noReceive(size int) {
	c.Helper()
	a, b := c.pair()
	s := c.send(a, size, 1)
	c.sent(a, s, vipl.StatusOpSend|c.blamed())
	c.ended(vipl.ErrRecvQueue, a, b)
	if s.Length != 0 {
		c.Error("length", s.Length)
	}
}

// tooLong sends a message that fits its receive, and then one that is longer than its receive.
func (c *Case) tooLong(size, space int) {
	c.Helper()
	a, b := c.pair()
	fits, small, later := c.post(b, size), c.post(b, space), c.post(b, size)
	s, u := c.send(a, size, 1), c.send(a, size, 2)
	c.gotData(b, fits, size, 1)
	c.sent(a, s, vipl.StatusOpSend)
	c.got(b, small, vipl.StatusOpReceive|vipl.StatusLengthError)
	c.got(b, later, vipl.StatusOpReceive|vipl.StatusFlushed)
	c.sent(a, u, vipl.StatusOpSend|c.blamed())
	c.ended(vipl.ErrTooLong, a, b)
	if small.Length != 0 || !filled(small.Segs[0].Data, guardFill) {
		c.Error("something was written")
	}
}

// tooLongLoose is tooLong on the unreliable level.
func (c *Case) tooLongLoose(size, space int) {
	c.Helper()
	a, b := c.pair()
	small, later := c.post(b, space), c.post(b, size)
	c.sent(a, c.send(a, size, 1), vipl.StatusOpSend)
	c.got(b, small, vipl.StatusOpReceive|vipl.StatusLengthError)
	if small.Length != 0 || !filled(small.Segs[0].Data, guardFill) {
		c.Error("something was written")
	}
	c.alive(a, b)
	c.sent(a, c.send(a, size, 2), vipl.StatusOpSend)
	c.gotData(b, later, size, 2)
}

// tooLongPacked sends many small messages that share frames. One of them does not fit its receive.
func (c *Case) tooLongPacked() {
	c.Helper()
	const count, bad = 12, 8
	a, b := c.pair()
	var rs []*vipl.Descriptor
	for range count {
		rs = append(rs, c.post(b, 100))
	}
	for i := range count {
		size := i + 1
		if i == bad {
			size = 101
		}
		c.send(a, size, i)
	}
	a.Flush()
	for i, r := range rs {
		switch {
		case i == bad:
			c.got(b, r, vipl.StatusOpReceive|vipl.StatusLengthError)
		case i < bad || c.level == unreliable:
			c.gotData(b, r, i+1, i)
		default:
			c.got(b, r, vipl.StatusOpReceive|vipl.StatusFlushed)
		}
	}
	if c.level == unreliable {
		c.alive(a, b)
		return
	}
	c.ended(vipl.ErrTooLong, a, b)
}
