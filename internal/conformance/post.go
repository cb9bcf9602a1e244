package conformance

import (
	"github.com/bobnet-go/bobnet/vipl"
)

// posting is PostSend or PostRecv.
type posting struct {
	call string
	post func(v *vipl.VI, d *vipl.Descriptor) error
	q    func(v *vipl.VI) taking
	full error
	op   vipl.Status
}

var postings = []posting{
	{"VipPostSend", (*vipl.VI).PostSend, sends, vipl.ErrSendQueueFull, vipl.StatusOpSend},
	{"VipPostRecv", (*vipl.VI).PostRecv, receives, vipl.ErrRecvQueueFull, vipl.StatusOpReceive},
}

// misuse is a descriptor that must not be posted.
type misuse struct {
	name   string
	want   error
	status vipl.Status
	make   func(c *Case) []vipl.Segment // returns the segments, for a VI of A
}

var misuses = []misuse{
	{"BeforeRegion_InvalidParameter", vipl.ErrArgument, vipl.StatusProtectionError, func(c *Case) []vipl.Segment {
		all, _ := c.mem(c.A, 64, nil)
		h, err := c.A.RegisterMem(all[8:], nil)
		c.is(err, nil)
		c.regions = append(c.regions, func() { c.A.DeregisterMem(h) })
		return []vipl.Segment{{Data: all[7:16], Handle: h}}
	}},
	{"BehindRegion_InvalidParameter", vipl.ErrArgument, vipl.StatusProtectionError, func(c *Case) []vipl.Segment {
		all, _ := c.mem(c.A, 64, nil)
		h, err := c.A.RegisterMem(all[:32], nil)
		c.is(err, nil)
		c.regions = append(c.regions, func() { c.A.DeregisterMem(h) })
		return []vipl.Segment{{Data: all[32:33], Handle: h}}
	}},
	{"OneByteBeyondRegion_InvalidParameter", vipl.ErrArgument, vipl.StatusProtectionError, func(c *Case) []vipl.Segment {
		all, _ := c.mem(c.A, 64, nil)
		h, err := c.A.RegisterMem(all[:32], nil)
		c.is(err, nil)
		c.regions = append(c.regions, func() { c.A.DeregisterMem(h) })
		return []vipl.Segment{{Data: all[:33], Handle: h}}
	}},
	{"UnregisteredMemory_InvalidParameter", vipl.ErrArgument, vipl.StatusProtectionError, func(c *Case) []vipl.Segment {
		_, h := c.mem(c.A, 8, nil)
		return []vipl.Segment{{Data: make([]byte, 8), Handle: h}}
	}},
	{"ZeroHandle_InvalidParameter", vipl.ErrArgument, vipl.StatusProtectionError, func(c *Case) []vipl.Segment {
		buf, _ := c.mem(c.A, 8, nil)
		return []vipl.Segment{{Data: buf}}
	}},
	{"UnknownHandle_InvalidParameter", vipl.ErrArgument, vipl.StatusProtectionError, func(c *Case) []vipl.Segment {
		buf, _ := c.mem(c.A, 8, nil)
		return []vipl.Segment{{Data: buf, Handle: 1<<20 | 0xFFFFF}}
	}},
	{"OldHandle_InvalidParameter", vipl.ErrArgument, vipl.StatusProtectionError, func(c *Case) []vipl.Segment {
		buf, h := c.mem(c.A, 8, nil)
		c.is(c.A.DeregisterMem(h), nil)
		_, err := c.A.RegisterMem(buf, nil) // registers the same memory in the same slot again
		c.is(err, nil)
		c.regions = append(c.regions, func() { c.A.DeregisterMem(h + 1<<20) })
		return []vipl.Segment{{Data: buf, Handle: h}}
	}},
	{"OtherNICsRegion_InvalidParameter", vipl.ErrArgument, vipl.StatusProtectionError, func(c *Case) []vipl.Segment {
		c.twoNICs("each NIC must refuse regions of the other")
		buf, h := c.mem(c.B, 8, nil)
		return []vipl.Segment{{Data: buf, Handle: h}}
	}},
	{"OtherPtag_InvalidPtag", vipl.ErrInvalidPtag, vipl.StatusProtectionError, func(c *Case) []vipl.Segment {
		buf, h := c.mem(c.A, 8, &vipl.MemAttributes{Ptag: c.ptag(c.A)})
		return []vipl.Segment{{Data: buf, Handle: h}}
	}},
	{"SecondSegmentWrong_InvalidParameter", vipl.ErrArgument, vipl.StatusProtectionError, func(c *Case) []vipl.Segment {
		buf, h := c.mem(c.A, 8, nil)
		return []vipl.Segment{{Data: buf, Handle: h}, {Data: make([]byte, 8), Handle: h}}
	}},
	{"TooManySegments_InvalidParameter", vipl.ErrArgument, vipl.StatusFormatError, func(c *Case) []vipl.Segment {
		return c.segments(vipl.MaxSegments + 1)
	}},
}

// segments returns n segments of one byte in one region of A.
func (c *Case) segments(n int) []vipl.Segment {
	buf, h := c.mem(c.A, n, nil)
	segs := make([]vipl.Segment, n)
	for i := range segs {
		segs[i] = vipl.Segment{Data: buf[i : i+1], Handle: h}
	}
	return segs
}

// postRules returns the rules of posting, for both queues.
func postRules() (rs []rule) {
	for _, p := range postings {
		for _, m := range misuses {
			rs = append(rs, rule{p.call, m.name, "7 V", anyLevel, func(c *Case) {
				a, _ := c.pair()
				d := &vipl.Descriptor{Segs: m.make(c), Context: "mine"}
				err := p.post(a, d)
				c.is(err, m.want)
				if d.Status != m.status || d.Context != "mine" {
					c.Errorf("status %v, want %v", d.Status, m.status)
				}
				c.queues(a, true, true)
				d.Segs = nil // the caller still owns the refused descriptor
				c.is(a.PostRecv(d), nil)
				c.alive(a)
			}})
		}
		rs = append(rs, p.accepted()...)
		rs = append(rs, p.refused()...)
		rs = append(rs, p.stateful()...)
	}
	return append(rs, sendOnly...)
}

// accepted returns rules about descriptors at the limits of valid ones.
func (p posting) accepted() (rs []rule) {
	for _, e := range []struct {
		name string
		make func(c *Case) []vipl.Segment
	}{
		{"NoSegments_Success", func(c *Case) []vipl.Segment { return nil }},
		{"OneSegment_Success", func(c *Case) []vipl.Segment { return c.segments(1) }},
		{"MaxSegments_Success", func(c *Case) []vipl.Segment { return c.segments(vipl.MaxSegments) }},
		{"EmptySegment_NeedsNoHandle", func(c *Case) []vipl.Segment { return []vipl.Segment{{}, {Data: []byte{}, Handle: 99}} }},
		{"FirstByteOfRegion_Success", func(c *Case) []vipl.Segment {
			buf, h := c.mem(c.A, 64, nil)
			return []vipl.Segment{{Data: buf[:1], Handle: h}}
		}},
		{"LastByteOfRegion_Success", func(c *Case) []vipl.Segment {
			buf, h := c.mem(c.A, 64, nil)
			return []vipl.Segment{{Data: buf[63:], Handle: h}}
		}},
		{"WholeRegion_Success", func(c *Case) []vipl.Segment {
			buf, h := c.mem(c.A, 64, nil)
			return []vipl.Segment{{Data: buf, Handle: h}}
		}},
		{"SegmentsOfSeveralRegions_Success", func(c *Case) []vipl.Segment { return append(c.segments(2), c.segments(3)...) }},
	} {
		rs = append(rs, rule{p.call, e.name, "5 V", anyLevel, func(c *Case) {
			v := c.vi(c.A, nil)
			c.is(p.post(v, &vipl.Descriptor{Segs: e.make(c)}), nil)
		}})
	}
	return rs
}

// refused returns rules about descriptors that a queue refuses because of its state or theirs.
func (p posting) refused() []rule {
	return []rule{
		{p.call, "PostedAlready_InvalidParameter", "7 V", anyLevel, func(c *Case) {
			v := c.vi(c.A, nil)
			d := &vipl.Descriptor{}
			c.is(v.PostRecv(d), nil)
			c.is(p.post(v, d), vipl.ErrArgument)
		}},
		{p.call, "PostedElsewhere_InvalidParameter", "7 V", anyLevel, func(c *Case) {
			d := &vipl.Descriptor{}
			c.is(c.vi(c.B, nil).PostRecv(d), nil)
			c.is(p.post(c.vi(c.A, nil), d), vipl.ErrArgument)
		}},
		{p.call, "CompletedNotTaken_InvalidParameter", "7 V", anyLevel, func(c *Case) {
			v := c.vi(c.A, nil)
			d := &vipl.Descriptor{}
			c.is(v.PostSend(d), nil) // completes at once, because the VI is idle
			if n := v.Snapshot().SendUntaken; n != 1 {
				c.Fatal(n, "have completed")
			}
			c.is(p.post(v, d), vipl.ErrArgument)
			_, err := v.SendDone()
			c.is(err, vipl.ErrDescriptor)
			c.is(p.post(v, d), nil)
		}},
		{p.call, "QueueFull_Resource", "7 V", allLevels, func(c *Case) {
			attr := c.attr()
			attr.QueueDepth = 3
			v := c.vi(c.A, attr)
			buf, h := c.mem(c.A, 8, nil)
			for range 3 {
				c.is(p.post(v, &vipl.Descriptor{}), nil)
			}
			d := &vipl.Descriptor{Segs: []vipl.Segment{{Data: buf, Handle: h}}}
			err := p.post(v, d)
			c.is(err, vipl.ErrResource)
			c.is(err, p.full)
			c.is(c.A.DeregisterMem(h), nil) // the refused descriptor does not keep the region in use
			d.Segs = nil
			c.is(c.vi(c.A, nil).PostRecv(d), nil)
		}},
		{p.call, "QueueDepthOne_OneAtATime", "11 V", allLevels, func(c *Case) {
			attr := c.attr()
			attr.QueueDepth = 1
			a, b := c.pairOf(attr, attr)
			for i := range 4 {
				r := c.post(b, 8)
				c.is(b.PostRecv(&vipl.Descriptor{}), vipl.ErrRecvQueueFull)
				s := c.send(a, 8, i)
				c.is(a.PostSend(&vipl.Descriptor{}), vipl.ErrSendQueueFull)
				c.gotData(b, r, 8, i)
				c.sent(a, s, vipl.StatusOpSend)
			}
		}},
	}
}

// stateful returns rules about the history of a queue and a descriptor.
func (p posting) stateful() []rule {
	return []rule{
		{p.call, "DefaultDepth_Holds1024", "11 V", anyLevel, func(c *Case) {
			v := c.vi(c.A, nil)
			for range vipl.DefaultQueueDepth {
				c.is(p.post(v, &vipl.Descriptor{}), nil)
			}
			c.is(p.post(v, &vipl.Descriptor{}), p.full)
		}},
		{p.call, "DestroyedVI_InvalidState", "3 V", anyLevel, func(c *Case) {
			v := c.vi(c.A, nil)
			c.is(v.Close(), nil)
			c.is(p.post(v, &vipl.Descriptor{}), vipl.ErrInvalidState)
		}},
		{p.call, "Reused_StatusReset", "5 V", allLevels, func(c *Case) {
			v := c.vi(c.A, nil)
			d := &vipl.Descriptor{Status: vipl.StatusDone | vipl.StatusFormatError, Length: 99}
			c.is(v.PostRecv(d), nil)
			if d.Status != 0 || d.Length != 0 {
				c.Error(d.Status, d.Length)
			}
		}},
		{p.call, "TooLongAfterRefusal_RegionFree", "7 V", anyLevel, func(c *Case) {
			v := c.vi(c.A, nil)
			buf, h := c.mem(c.A, 8, nil)
			segs := []vipl.Segment{{Data: buf, Handle: h}, {Data: make([]byte, 1), Handle: h}}
			c.is(p.post(v, &vipl.Descriptor{Segs: segs}), vipl.ErrArgument)
			c.is(c.A.DeregisterMem(h), nil)
		}},
	}
}

var sendOnly = []rule{
	{"VipPostSend", "UnknownOperation_InvalidParameter", "5 V", anyLevel, func(c *Case) {
		v := c.vi(c.A, nil)
		d := &vipl.Descriptor{Op: 77}
		c.is(v.PostSend(d), vipl.ErrArgument)
		if d.Status != vipl.StatusFormatError {
			c.Error(d.Status)
		}
		c.queues(v, true, true)
	}},
	{"VipPostSend", "MaxTransferSize_Success", "3 V", allLevels, func(c *Case) {
		attr := c.attr()
		attr.MaxTransferSize = 100
		a, b := c.pairOf(attr, attr)
		r := c.post(b, 100)
		c.send(a, 100, 1)
		c.gotData(b, r, 100, 1)
	}},
	{"VipPostSend", "OverMaxTransferSize_InvalidParameter", "3 V", allLevels, func(c *Case) {
		attr := c.attr()
		attr.MaxTransferSize = 100
		a, _ := c.pairOf(attr, attr)
		d := c.buffer(a, 101)
		c.is(a.PostSend(d), vipl.ErrArgument)
		if d.Status != vipl.StatusLengthError {
			c.Error(d.Status)
		}
		d.Op = vipl.OpRDMAWrite
		c.is(a.PostSend(d), vipl.ErrArgument)
		c.is(c.A.DeregisterMem(d.Segs[0].Handle), nil)
		c.alive(a)
	}},
	{"VipPostSend", "OverMaxTransferSizeInSegments_InvalidParameter", "3 V", anyLevel, func(c *Case) {
		attr := c.attr()
		attr.MaxTransferSize = 100
		v := c.vi(c.A, attr)
		d, e := c.buffer(v, 60), c.buffer(v, 41)
		d.Segs = append(d.Segs, e.Segs...)
		c.is(v.PostSend(d), vipl.ErrArgument)
	}},
	{"VipPostRecv", "LongerThanMaxTransferSize_Success", "doc", anyLevel, func(c *Case) {
		attr := c.attr()
		attr.MaxTransferSize = 100
		c.post(c.vi(c.A, attr), 200)
	}},
	{"VipPostRecv", "OperationIgnored", "doc", allLevels, func(c *Case) {
		a, b := c.pair()
		r := c.buffer(b, 8)
		r.Op, r.HasImmediate, r.Remote = 77, true, vipl.RemoteSegment{Addr: 1, Handle: 2}
		c.is(b.PostRecv(r), nil)
		c.send(a, 8, 3)
		c.gotData(b, r, 8, 3)
		if r.HasImmediate {
			c.Error("immediate data, although the message had none")
		}
	}},
	{"VipPostSend", "ContextAndSegments_Untouched", "2.6 V", allLevels, func(c *Case) {
		a, b := c.pair()
		r, s := c.buffer(b, 8), c.buffer(a, 8)
		r.Context, s.Context = 17, "x"
		c.is(b.PostRecv(r), nil)
		c.is(a.PostSend(s), nil)
		c.got(b, r, vipl.StatusOpReceive)
		c.sent(a, s, vipl.StatusOpSend)
		if r.Context != 17 || s.Context != "x" || len(s.Segs) != 1 || len(s.Segs[0].Data) != 8 {
			c.Error(r.Context, s.Context, s.Segs)
		}
	}},
	{"VipPostSend", "Reused_ManyTimes", "2.6 V", allLevels, func(c *Case) {
		a, b := c.pair()
		r, s := c.buffer(b, 300), c.buffer(a, 300)
		for i := range 20 {
			c.is(b.PostRecv(r), nil)
			fill(s.Segs[0].Data, i)
			c.is(a.PostSend(s), nil)
			c.gotData(b, r, 300, i)
			c.sent(a, s, vipl.StatusOpSend)
			if s.Length != 300 {
				c.Error("length", s.Length)
			}
		}
	}},
}

// boundRules returns rules about the longest message: the sum of the segments must not exceed its
// length, even if the segments overlap.
func boundRules() (rs []rule) {
	for _, p := range postings {
		rs = append(rs, rule{p.call, "OverLongestMessage_InvalidParameter", "11 V", anyLevel, func(c *Case) {
			if c.World == nil {
				c.Skip("takes 64 MiB of address space, so it runs only once, in the simulator")
			}
			v := c.vi(c.A, nil)
			buf := make([]byte, vipl.MaxTransferSize/vipl.MaxSegments+1)
			h, err := c.A.RegisterMem(buf, nil)
			c.is(err, nil)
			segs := make([]vipl.Segment, vipl.MaxSegments)
			for i := range segs {
				segs[i] = vipl.Segment{Data: buf, Handle: h}
			}
			d := &vipl.Descriptor{Segs: segs}
			c.is(p.post(v, d), vipl.ErrArgument)
			if d.Status != vipl.StatusLengthError {
				c.Error(d.Status)
			}
			for i := range segs {
				segs[i].Data = buf[1:]
			}
			c.is(p.post(v, d), nil)
			c.is(v.Close(), nil)
			c.is(c.A.DeregisterMem(h), nil)
		}})
	}
	return rs
}
