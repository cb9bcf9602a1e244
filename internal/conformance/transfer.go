package conformance

import (
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/vipl"
)

// sizes contains the lengths of messages at which the code path changes: whether the payload is
// copied behind the header, whether messages share a frame, and whether a message needs several
// frames.
var sizes = []struct {
	name string
	of   func(frame int) int // returns the length, for frames with room for frame bytes
}{
	{"0", func(int) int { return 0 }},
	{"1", func(int) int { return 1 }},
	{"7", func(int) int { return 7 }},
	{"64", func(int) int { return 64 }},
	{"256", func(int) int { return 256 }},
	{"257", func(int) int { return 257 }},
	{"1024", func(int) int { return 1024 }},
	{"1025", func(int) int { return 1025 }},
	{"FrameLess1", func(f int) int { return f - 1 }},
	{"Frame", func(f int) int { return f }},
	{"FrameAnd1", func(f int) int { return f + 1 }},
	{"TwoFrames", func(f int) int { return 2 * f }},
	{"TwoFramesAnd1", func(f int) int { return 2*f + 1 }},
	{"TenFramesAnd3", func(f int) int { return 10*f + 3 }},
	{"300000", func(int) int { return 300_000 }},
}

const immediate = 0xBEEF

// transferRules returns rules that send messages of every size, with and without immediate data.
func transferRules() (rs []rule) {
	for _, size := range sizes {
		rs = append(rs, rule{"VipPostSend", "Size" + size.name + "_Received", "2.6 V", allLevels, func(c *Case) {
			n := size.of(c.dataMax(0))
			a, b := c.pair()
			r, after := c.post(b, n+10), c.post(b, 10)
			s := c.send(a, n, 1)
			c.gotData(b, r, n, 1)
			c.sent(a, s, vipl.StatusOpSend)
			if int(s.Length) != n || r.HasImmediate || !filled(r.Segs[0].Data[n:], guardFill) {
				c.Error("length", s.Length, "immediate", r.HasImmediate, "or bytes after the message were overwritten")
			}
			c.sendNow(a, 5, 2)
			c.gotData(b, after, 5, 2)
		}})
		rs = append(rs, rule{"VipPostSend", "Immediate_Size" + size.name + "_Received", "5 V", allLevels, func(c *Case) {
			n := size.of(c.dataMax(ethertype.ImmediateSize))
			a, b := c.pair()
			r := c.post(b, n)
			s := c.buffer(a, n)
			fill(s.Segs[0].Data, 3)
			s.HasImmediate, s.Immediate = true, immediate
			c.is(a.PostSend(s), nil)
			c.got(b, r, vipl.StatusOpReceive|vipl.StatusImmediate)
			c.sent(a, s, vipl.StatusOpSend|vipl.StatusImmediate)
			if int(r.Length) != n || !same(r.Segs[0].Data, 3) || !r.HasImmediate || r.Immediate != immediate {
				c.Errorf("%d bytes, immediate %v %#x", r.Length, r.HasImmediate, r.Immediate)
			}
		}})
	}
	return rs
}

var segmentRules = []rule{
	{"VipPostRecv", "Scattered_OneToMany", "5 V", allLevels, func(c *Case) { c.scatters(5000, []int{5000}, []int{1, 2, 3000, 0, 997, 1000}) }},
	{"VipPostSend", "Gathered_ManyToOne", "5 V", allLevels, func(c *Case) { c.scatters(5000, []int{1, 0, 2, 3000, 997, 1000}, []int{5000}) }},
	{"VipPostSend", "Gathered_ManyToMany", "5 V", allLevels, func(c *Case) {
		c.scatters(4321, []int{1000, 1000, 1000, 1321}, []int{321, 2000, 2000})
	}},
	{"VipPostSend", "Gathered_MaxSegments", "5 V", allLevels, func(c *Case) {
		many := make([]int, vipl.MaxSegments)
		for i := range many {
			many[i] = 300 + i
		}
		c.scatters(16*300+120, many, many)
	}},
	{"VipPostSend", "Gathered_SmallPieces", "5 V", allLevels, func(c *Case) { c.scatters(9, []int{1, 1, 1, 1, 1, 1, 1, 1, 1}, []int{2, 2, 2, 3}) }},
	{"VipPostRecv", "Scattered_EmptySegmentsSkipped", "5 V", allLevels, func(c *Case) { c.scatters(10, []int{0, 10, 0}, []int{0, 0, 5, 0, 5, 0}) }},
	{"VipPostRecv", "ShorterThanReceive_RestUntouched", "2.6 V", allLevels, func(c *Case) { c.scatters(2500, []int{2500}, []int{1000, 1000, 1000, 1000}) }},
	{"VipPostSend", "SameMemoryTwice_GatheredTwice", "5 V", allLevels, func(c *Case) {
		a, b := c.pair()
		r, s := c.post(b, 20), c.buffer(a, 10)
		fill(s.Segs[0].Data, 1)
		s.Segs = append(s.Segs, s.Segs[0])
		c.is(a.PostSend(s), nil)
		c.got(b, r, vipl.StatusOpReceive)
		if got := r.Segs[0].Data; !same(got[:10], 1) || !same(got[10:], 1) {
			c.Error(got)
		}
	}},
	{"VipPostSend", "ManySmall_EachInItsReceive", "2.6 V", allLevels, func(c *Case) {
		a, b := c.pair()
		var rs, ss []*vipl.Descriptor
		for range 60 {
			rs = append(rs, c.post(b, 100))
		}
		for i := range 60 { // messages share frames when more than a few are in flight
			s := c.buffer(a, i)
			fill(s.Segs[0].Data, i)
			s.HasImmediate, s.Immediate = i%3 == 0, uint32(i)
			c.is(a.PostSend(s), nil)
			ss = append(ss, s)
		}
		for i, r := range rs {
			flag := vipl.Status(0)
			if i%3 == 0 {
				flag = vipl.StatusImmediate
			}
			c.got(b, r, vipl.StatusOpReceive|flag)
			if int(r.Length) != i || !same(r.Segs[0].Data[:i], i) || r.HasImmediate != (i%3 == 0) || r.HasImmediate && int(r.Immediate) != i {
				c.Fatalf("message %d: %d bytes, immediate %v %d", i, r.Length, r.HasImmediate, r.Immediate)
			}
			c.sent(a, ss[i], vipl.StatusOpSend|flag)
		}
	}},
	{"VipPostSend", "BothWaysAtOnce_Received", "2.6 V", allLevels, func(c *Case) {
		a, b := c.pair()
		var ra, rb []*vipl.Descriptor
		for range 20 {
			ra, rb = append(ra, c.post(a, 3000)), append(rb, c.post(b, 3000))
		}
		for i := range 20 {
			c.send(a, 2000+i, i)
			c.send(b, 2500+i, i)
		}
		for i := range 20 {
			c.gotData(a, ra[i], 2500+i, i)
			c.gotData(b, rb[i], 2000+i, i)
		}
	}},
	{"VipPostSend", "Flush_SendsWhatWasGathered", "doc", reliable, func(c *Case) {
		a, b := c.pair()
		ds := c.postMany(b, 10)
		for i := range 10 {
			c.send(a, 3, i)
		}
		a.Flush()
		c.await("the messages", func() bool { return b.Snapshot().Receives == 10 })
		for i, r := range ds {
			c.gotData(b, r, 3, i)
		}
	}},
	{"VipPostSend", "SeveralVIs_DoNotMix", "2.2 V", allLevels, func(c *Case) {
		var as, bs [4]*vipl.VI
		var rs [4]*vipl.Descriptor
		for i := range as {
			as[i], bs[i] = c.pair()
			rs[i] = c.post(bs[i], 2000)
		}
		for i := range as {
			c.send(as[i], 1800+i, i)
		}
		for i := range as {
			c.gotData(bs[i], rs[i], 1800+i, i)
		}
	}},
}

// scatters sends one message gathered from pieces of the given sizes into a
// receive made of pieces of others.
func (c *Case) scatters(size int, from, into []int) {
	c.Helper()
	a, b := c.pair()
	s, r := &vipl.Descriptor{}, &vipl.Descriptor{}
	for _, n := range from {
		s.Segs = append(s.Segs, c.buffer(a, n).Segs...)
	}
	for _, n := range into {
		r.Segs = append(r.Segs, c.buffer(b, n).Segs...)
	}
	whole := make([]byte, size)
	fill(whole, 6)
	for i, rest := 0, whole; i < len(s.Segs); i++ {
		rest = rest[copy(s.Segs[i].Data, rest):]
	}
	c.is(b.PostRecv(r), nil)
	c.is(a.PostSend(s), nil)
	c.got(b, r, vipl.StatusOpReceive)
	c.sent(a, s, vipl.StatusOpSend)
	var all []byte
	for i := range r.Segs {
		all = append(all, r.Segs[i].Data...)
	}
	if int(r.Length) != size || int(s.Length) != size || !same(all[:size], 6) || !filled(all[size:], guardFill) {
		c.Errorf("%d bytes became %d", size, r.Length)
	}
}
