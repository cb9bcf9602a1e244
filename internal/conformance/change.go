package conformance

import (
	"time"

	"github.com/bobnet-go/bobnet/vipl"
)

// sets calls SetAttributes on a VI in state s. It expects the error want, and the new attributes if
// want is nil, otherwise the old ones.
func sets(name string, s vipl.State, want error, change func(c *Case, a *vipl.Attributes)) rule {
	return rule{"VipSetViAttributes", name + "_" + stateNames[s], "2.2 V", allLevels, func(c *Case) {
		v, _, _ := c.inState(s)
		before := attributes(v)
		a := before
		change(c, &a)
		c.is(v.SetAttributes(&a), want)
		if got := attributes(v); want == nil && got != a || want != nil && got != before {
			c.Errorf("attributes are %+v; set %+v; were %+v", got, a, before)
		}
		c.state(v, s)
	}}
}

// otherLevel sets a level other than the present one; a second call sets the third level.
func otherLevel(a *vipl.Attributes) {
	if a.Reliability = a.Reliability << 1; a.Reliability > 4 {
		a.Reliability = 1
	}
	a.EnableRDMARead = a.Reliability != unreliable
}

func attributeRules() (rs []rule) {
	for _, s := range stateOrder {
		agreed := vipl.ErrInvalidState
		if s == vipl.StateIdle {
			agreed = nil
		}
		rs = append(rs,
			sets("Level", s, agreed, func(c *Case, a *vipl.Attributes) { otherLevel(a) }),
			sets("MaxTransferSize", s, agreed, func(c *Case, a *vipl.Attributes) { a.MaxTransferSize = 1234 }),
			sets("QoS", s, agreed, func(c *Case, a *vipl.Attributes) { a.QoS = 5 }),
			sets("WholeCRC", s, agreed, func(c *Case, a *vipl.Attributes) { a.WholeCRC = true }),
			sets("ReadDepth", s, agreed, func(c *Case, a *vipl.Attributes) { a.ReadDepth = 3 }),
			sets("RDMAWriteRight", s, nil, func(c *Case, a *vipl.Attributes) { a.EnableRDMAWrite = false }),
			sets("RDMAReadRight", s, nil, func(c *Case, a *vipl.Attributes) { a.EnableRDMARead = false }),
			sets("Ptag", s, nil, func(c *Case, a *vipl.Attributes) { a.Ptag = c.ptag(c.A) }),
			sets("QueueDepth", s, nil, func(c *Case, a *vipl.Attributes) { a.QueueDepth = 2 }),
			sets("PeerTimeout", s, nil, func(c *Case, a *vipl.Attributes) { a.PeerTimeout = 20 * time.Second }),
			sets("UnknownPtag", s, vipl.ErrInvalidPtag, func(c *Case, a *vipl.Attributes) { a.Ptag = c.ptag(c.A) + 1 }),
			sets("UnknownLevel", s, vipl.ErrInvalidReliability, func(c *Case, a *vipl.Attributes) { a.Reliability = 3 }),
			sets("OverMaxTransferSize", s, vipl.ErrInvalidMTU, func(c *Case, a *vipl.Attributes) { a.MaxTransferSize = vipl.MaxTransferSize + 1 }),
		)
	}
	return append(rs, changeRules...)
}

var changeRules = []rule{
	{"VipSetViAttributes", "Ptag_OldRegionRefused", "11 V", allLevels, func(c *Case) {
		v := c.vi(c.A, nil)
		buf, h := c.mem(c.A, 8, nil)
		d := &vipl.Descriptor{Segs: []vipl.Segment{{Data: buf, Handle: h}}}
		a := attributes(v)
		a.Ptag = c.ptag(c.A)
		c.is(v.SetAttributes(&a), nil)
		c.is(v.PostRecv(d), vipl.ErrInvalidPtag)
		c.is(c.A.SetMemAttributes(h, &vipl.MemAttributes{Ptag: a.Ptag}), nil)
		c.is(v.PostRecv(d), nil)
	}},
	{"VipSetViAttributes", "PtagWhilePosted_InvalidState", "11 V", allLevels, func(c *Case) {
		v := c.vi(c.A, nil)
		c.post(v, 8)
		a := attributes(v)
		a.Ptag = c.ptag(c.A)
		c.is(v.SetAttributes(&a), vipl.ErrInvalidState)
	}},
	{"VipSetViAttributes", "Ptag_ReferenceMoves", "3 V", anyLevel, func(c *Case) {
		p, q := c.ptag(c.A), c.ptag(c.A)
		v := c.vi(c.A, &vipl.Attributes{Ptag: p})
		a := attributes(v)
		a.Ptag = q
		c.is(v.SetAttributes(&a), nil)
		c.is(c.A.DestroyPtag(p), nil)
		c.is(c.A.DestroyPtag(q), vipl.ErrResource)
		c.is(v.Close(), nil)
		c.is(c.A.DestroyPtag(q), nil)
	}},
	{"VipSetViAttributes", "Ptag_PeersWritesFollow", "11 V", reliable, func(c *Case) {
		a, b := c.pair()
		attr := attributes(b)
		attr.Ptag = c.ptag(c.B)
		c.is(b.SetAttributes(&attr), nil)
		buf, h := c.mem(c.B, 64, &vipl.MemAttributes{Ptag: attr.Ptag, EnableRDMAWrite: true})
		c.sent(a, c.write(a, 8, vipl.VirtualAddress(buf), h, false), vipl.StatusOpRDMAWrite)
		old, k := c.mem(c.B, 64, remoteAccess())
		c.sent(a, c.write(a, 8, vipl.VirtualAddress(old), k, false), vipl.StatusOpRDMAWrite|vipl.StatusRDMAProtError)
	}},
	{"VipSetViAttributes", "RDMAWriteRightTaken_NextWriteForbidden", "2.2 V", reliable, func(c *Case) {
		a, b := c.pair()
		buf, h := c.mem(c.B, 64, remoteAccess())
		c.sent(a, c.write(a, 8, vipl.VirtualAddress(buf), h, false), vipl.StatusOpRDMAWrite)
		attr := attributes(b)
		attr.EnableRDMAWrite = false
		c.is(b.SetAttributes(&attr), nil)
		c.sent(a, c.write(a, 8, vipl.VirtualAddress(buf), h, false), vipl.StatusOpRDMAWrite|vipl.StatusRDMAProtError)
		c.ended(vipl.ErrRDMA, a, b)
	}},
	{"VipSetViAttributes", "RDMAReadRightTaken_NextReadForbidden", "2.2 V", reliable, func(c *Case) {
		a, b := c.pair()
		_, addr, h := c.source(64, 1)
		c.hasRead(a, c.read(a, 8, addr, h), 8, 1)
		attr := attributes(b)
		attr.EnableRDMARead = false
		c.is(b.SetAttributes(&attr), nil)
		c.sent(a, c.read(a, 8, addr, h), vipl.StatusOpRDMARead|vipl.StatusRDMAProtError)
		c.ended(vipl.ErrRDMA, a, b)
	}},
	{"VipSetViAttributes", "QueueDepthBelowPosted_Resource", "3 V", allLevels, func(c *Case) {
		v := c.vi(c.A, nil)
		c.postMany(v, 5)
		a := attributes(v)
		a.QueueDepth = 4
		c.is(v.SetAttributes(&a), vipl.ErrResource)
		a.QueueDepth = 5
		c.is(v.SetAttributes(&a), nil)
		c.is(v.PostRecv(&vipl.Descriptor{}), vipl.ErrRecvQueueFull)
	}},
	{"VipSetViAttributes", "ThenConnect_NewOnesCount", "8 V", allLevels, func(c *Case) {
		a, b := c.vi(c.A, nil), c.vi(c.B, nil)
		for _, v := range []*vipl.VI{a, b} {
			attr := attributes(v)
			otherLevel(&attr)
			attr.QoS = 3
			c.is(v.SetAttributes(&attr), nil)
		}
		c.join(a, b)
		c.works(a, b)
	}},
	{"VipSetViAttributes", "Nil_Defaults", "doc", anyLevel, func(c *Case) {
		v := c.vi(c.A, &vipl.Attributes{Reliability: unreliable, QoS: 4})
		c.is(v.SetAttributes(nil), nil)
		if a := attributes(v); a.Reliability != delivery || a.QoS != 0 || !a.EnableRDMAWrite {
			c.Errorf("%+v", a)
		}
	}},
	{"VipSetViAttributes", "Destroyed_InvalidState", "3 V", anyLevel, func(c *Case) {
		v := c.vi(c.A, nil)
		c.is(v.Close(), nil)
		c.is(v.SetAttributes(nil), vipl.ErrClosed)
	}},
	{"VipSetMemAttributes", "Rights_Changed", "2.5 V", anyLevel, func(c *Case) {
		buf, h := c.mem(c.A, 10, nil)
		c.is(c.A.SetMemAttributes(h, remoteAccess()), nil)
		c.queried(h, vipl.MemInfo{MemAttributes: *remoteAccess(), Addr: vipl.VirtualAddress(buf), Len: 10})
		c.is(c.A.SetMemAttributes(h, nil), nil)
		c.queried(h, vipl.MemInfo{Addr: vipl.VirtualAddress(buf), Len: 10})
	}},
	{"VipSetMemAttributes", "UnknownHandle_InvalidParameter", "3 V", anyLevel, func(c *Case) {
		c.is(c.A.SetMemAttributes(0, nil), vipl.ErrArgument)
		_, h := c.mem(c.A, 8, nil)
		c.is(c.A.DeregisterMem(h), nil)
		c.is(c.A.SetMemAttributes(h, nil), vipl.ErrArgument)
	}},
	{"VipSetMemAttributes", "UnknownPtag_InvalidPtag", "11 V", anyLevel, func(c *Case) {
		_, h := c.mem(c.A, 8, nil)
		c.is(c.A.SetMemAttributes(h, &vipl.MemAttributes{Ptag: c.ptag(c.A) + 1}), vipl.ErrInvalidPtag)
	}},
	{"VipSetMemAttributes", "WhilePosted_InvalidState", "doc", anyLevel, func(c *Case) {
		v := c.vi(c.A, nil)
		r := c.post(v, 8)
		c.is(c.A.SetMemAttributes(r.Segs[0].Handle, remoteAccess()), vipl.ErrInvalidState)
		c.is(v.Disconnect(), nil)
		c.is(c.A.SetMemAttributes(r.Segs[0].Handle, remoteAccess()), nil)
	}},
	{"VipSetMemAttributes", "Ptag_ReferenceMoves", "3 V", anyLevel, func(c *Case) {
		p, q := c.ptag(c.A), c.ptag(c.A)
		_, h := c.mem(c.A, 8, &vipl.MemAttributes{Ptag: p})
		c.is(c.A.SetMemAttributes(h, &vipl.MemAttributes{Ptag: q}), nil)
		c.is(c.A.DestroyPtag(p), nil)
		c.is(c.A.DestroyPtag(q), vipl.ErrResource)
		c.is(c.A.DeregisterMem(h), nil)
		c.is(c.A.DestroyPtag(q), nil)
	}},
	{"VipSetMemAttributes", "WriteRightTaken_NextWriteForbidden", "11 V", reliable, func(c *Case) {
		a, b := c.pair()
		buf, h := c.mem(c.B, 64, remoteAccess())
		c.sent(a, c.write(a, 8, vipl.VirtualAddress(buf), h, false), vipl.StatusOpRDMAWrite)
		c.is(c.B.SetMemAttributes(h, nil), nil)
		c.sent(a, c.write(a, 9, vipl.VirtualAddress(buf), h, false), vipl.StatusOpRDMAWrite|vipl.StatusRDMAProtError)
		c.ended(vipl.ErrRDMA, a, b)
		if !same(buf[:8], 8) || !filled(buf[8:], guardFill) {
			c.Error("the second write was done")
		}
	}},
	{"VipSetMemAttributes", "WriteRightGiven_NextWriteDone", "11 V", allLevels, func(c *Case) {
		a, b := c.pair()
		buf, h := c.mem(c.B, 64, nil)
		c.is(c.B.SetMemAttributes(h, remoteAccess()), nil)
		c.sent(a, c.write(a, 8, vipl.VirtualAddress(buf), h, false), vipl.StatusOpRDMAWrite)
		c.alive(a, b)
		if !same(buf[:8], 8) {
			c.Error("it was not written")
		}
	}},
}
