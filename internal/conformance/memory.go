package conformance

import (
	"os"

	"github.com/bobnet-go/bobnet/vipl"
)

var memoryRules = []rule{
	{"VipRegisterMem", "NilAttributes_NoRights", "2.5 V", anyLevel, func(c *Case) {
		buf, h := c.mem(c.A, 100, nil)
		c.queried(h, vipl.MemInfo{Addr: vipl.VirtualAddress(buf), Len: 100})
	}},
	{"VipRegisterMem", "OneByte_Success", "2.5 V", anyLevel, func(c *Case) {
		buf, h := c.mem(c.A, 1, nil)
		c.queried(h, vipl.MemInfo{Addr: vipl.VirtualAddress(buf), Len: 1})
	}},
	{"VipRegisterMem", "NoBytes_InvalidParameter", "3 V", anyLevel, func(c *Case) {
		for _, b := range [][]byte{nil, {}, make([]byte, 0, 8)} {
			h, err := c.A.RegisterMem(b, nil)
			c.is(err, vipl.ErrArgument)
			if h != 0 {
				c.Error("handle", h)
			}
		}
	}},
	{"VipRegisterMem", "UnknownPtag_InvalidPtag", "11 V", anyLevel, func(c *Case) {
		_, err := c.A.RegisterMem(make([]byte, 8), &vipl.MemAttributes{Ptag: c.ptag(c.A) + 1})
		c.is(err, vipl.ErrInvalidPtag)
	}},
	{"VipRegisterMem", "Twice_TwoRegions", "doc", anyLevel, func(c *Case) {
		buf, h := c.mem(c.A, 64, nil)
		k, err := c.A.RegisterMem(buf, nil)
		c.is(err, nil)
		if h == k || h == 0 || k == 0 {
			c.Error("handles", h, k)
		}
		c.is(c.A.DeregisterMem(k), nil)
		v := c.vi(c.A, nil)
		c.is(v.PostRecv(&vipl.Descriptor{Segs: []vipl.Segment{{Data: buf, Handle: h}}}), nil)
	}},
	{"VipRegisterMem", "Overlapping_Success", "doc", anyLevel, func(c *Case) {
		buf, _ := c.mem(c.A, 64, nil)
		h, err := c.A.RegisterMem(buf[32:], nil)
		c.is(err, nil)
		v := c.vi(c.A, nil)
		c.is(v.PostRecv(&vipl.Descriptor{Segs: []vipl.Segment{{Data: buf[31:], Handle: h}}}), vipl.ErrArgument)
		c.is(v.PostRecv(&vipl.Descriptor{Segs: []vipl.Segment{{Data: buf[32:], Handle: h}}}), nil)
		c.is(v.Close(), nil)
		c.is(c.A.DeregisterMem(h), nil)
	}},
	{"VipRegisterMem", "Handles_NotReusedAtOnce", "doc", anyLevel, func(c *Case) {
		buf := make([]byte, 8)
		seen := map[vipl.MemHandle]bool{}
		for range 100 {
			h, err := c.A.RegisterMem(buf, nil)
			c.is(err, nil)
			if seen[h] {
				c.Fatal("a handle was reused")
			}
			seen[h] = true
			c.is(c.A.DeregisterMem(h), nil)
		}
	}},
	{"VipRegisterMem", "Many_Counted", "doc", anyLevel, func(c *Case) {
		for i := range 50 {
			c.mem(c.A, 1+i, nil)
		}
		if n := c.A.Snapshot().Regions; n != 50 {
			c.Error(n, "regions")
		}
	}},
	{"VipRegisterMem", "AllocMem_NoBytes_InvalidParameter", "doc", anyLevel, func(c *Case) {
		for _, size := range []int{0, -1} {
			_, _, err := c.A.AllocMem(size, nil)
			c.is(err, vipl.ErrArgument)
		}
	}},
	{"VipRegisterMem", "AllocMem_UnknownPtag_InvalidPtag", "11 V", anyLevel, func(c *Case) {
		_, _, err := c.A.AllocMem(8, &vipl.MemAttributes{Ptag: c.ptag(c.A) + 1})
		c.is(err, vipl.ErrInvalidPtag)
	}},
	{"VipRegisterMem", "AllocMem_OneByte", "doc", anyLevel, func(c *Case) { c.allocates(1) }},
	{"VipRegisterMem", "AllocMem_APage", "doc", anyLevel, func(c *Case) { c.allocates(os.Getpagesize()) }},
	{"VipRegisterMem", "AllocMem_APageAndAByte", "doc", anyLevel, func(c *Case) { c.allocates(os.Getpagesize() + 1) }},
	{"VipRegisterMem", "AllocMem_Transfers", "doc", allLevels, func(c *Case) {
		a, b := c.pair()
		buf, h, err := c.A.AllocMem(5000, nil)
		c.is(err, nil)
		fill(buf, 4)
		r := c.post(b, 5000)
		s := &vipl.Descriptor{Segs: []vipl.Segment{{Data: buf, Handle: h}}}
		c.is(a.PostSend(s), nil)
		c.gotData(b, r, 5000, 4)
		c.sent(a, s, vipl.StatusOpSend)
		c.is(c.A.DeregisterMem(h), nil)
	}},
	{"VipDeregisterMem", "Registered_Success", "2.5 V", anyLevel, func(c *Case) {
		_, h := c.mem(c.A, 8, nil)
		c.is(c.A.DeregisterMem(h), nil)
		_, err := c.A.QueryMem(h)
		c.is(err, vipl.ErrArgument)
	}},
	{"VipDeregisterMem", "Twice_InvalidParameter", "3 V", anyLevel, func(c *Case) {
		_, h := c.mem(c.A, 8, nil)
		c.is(c.A.DeregisterMem(h), nil)
		c.is(c.A.DeregisterMem(h), vipl.ErrArgument)
	}},
	{"VipDeregisterMem", "ZeroHandle_InvalidParameter", "3 V", anyLevel, func(c *Case) { c.is(c.A.DeregisterMem(0), vipl.ErrArgument) }},
	{"VipDeregisterMem", "UnknownHandle_InvalidParameter", "3 V", anyLevel, func(c *Case) {
		c.is(c.A.DeregisterMem(1<<20|0xFFFFF), vipl.ErrArgument)
	}},
	{"VipDeregisterMem", "OldHandle_InvalidParameter", "3 V", anyLevel, func(c *Case) {
		_, h := c.mem(c.A, 8, nil)
		c.is(c.A.DeregisterMem(h), nil)
		_, k := c.mem(c.A, 8, nil) // uses the same slot
		c.is(c.A.DeregisterMem(h), vipl.ErrArgument)
		_, err := c.A.QueryMem(k)
		c.is(err, nil)
	}},
	{"VipDeregisterMem", "PostedReceive_InvalidState", "doc", allLevels, func(c *Case) {
		a, b := c.pair()
		r := c.post(b, 8)
		h := r.Segs[0].Handle
		c.is(c.B.DeregisterMem(h), vipl.ErrInvalidState)
		c.send(a, 8, 1)
		c.got(b, r, vipl.StatusOpReceive)
		c.is(c.B.DeregisterMem(h), nil)
	}},
	{"VipDeregisterMem", "PostedSend_InvalidState", "doc", allLevels, func(c *Case) {
		a, b := c.vi(c.A, nil), c.vi(c.B, nil)
		r := c.request(a, c.listen(c.B), nil)
		c.post(b, 8)
		s := c.send(a, 8, 1) // waits for the connection
		h := s.Segs[0].Handle
		c.is(c.A.DeregisterMem(h), vipl.ErrInvalidState)
		c.is(r.AcceptStart(b), nil)
		c.is(c.outcome(a), nil)
		c.sent(a, s, vipl.StatusOpSend)
		c.is(c.A.DeregisterMem(h), nil)
	}},
	{"VipDeregisterMem", "CompletedNotTaken_Success", "doc", allLevels, func(c *Case) {
		a, b := c.pair()
		r := c.post(b, 8)
		c.send(a, 8, 1)
		c.await("the message", func() bool { return b.Snapshot().Receives == 1 })
		c.is(c.B.DeregisterMem(r.Segs[0].Handle), nil)
		c.got(b, r, vipl.StatusOpReceive)
	}},
	{"VipDeregisterMem", "Flushed_Success", "doc", allLevels, func(c *Case) {
		a, _ := c.pair()
		r := c.post(a, 8)
		c.is(a.Disconnect(), nil)
		c.is(c.A.DeregisterMem(r.Segs[0].Handle), nil)
	}},
	{"VipDeregisterMem", "SeveralSegments_AllCounted", "doc", anyLevel, func(c *Case) {
		v := c.vi(c.A, nil)
		buf, h := c.mem(c.A, 64, nil)
		seg := vipl.Segment{Data: buf[:8], Handle: h}
		c.is(v.PostRecv(&vipl.Descriptor{Segs: []vipl.Segment{seg, seg, seg}}), nil)
		c.is(c.A.DeregisterMem(h), vipl.ErrInvalidState)
		c.is(v.Close(), nil)
		c.is(c.A.DeregisterMem(h), nil)
	}},
	{"VipQueryMem", "Attributes_AsGiven", "2.5 V", anyLevel, func(c *Case) {
		p := c.ptag(c.A)
		buf, h := c.mem(c.A, 77, &vipl.MemAttributes{Ptag: p, EnableRDMAWrite: true})
		c.queried(h, vipl.MemInfo{MemAttributes: vipl.MemAttributes{Ptag: p, EnableRDMAWrite: true}, Addr: vipl.VirtualAddress(buf), Len: 77})
	}},
	{"VipQueryMem", "ZeroHandle_InvalidParameter", "3 V", anyLevel, func(c *Case) {
		_, err := c.A.QueryMem(0)
		c.is(err, vipl.ErrArgument)
	}},
	{"VipQueryMem", "OtherNICsHandle_NotItsRegion", "3 V", anyLevel, func(c *Case) {
		c.twoNICs("each NIC must refuse handles of the other")
		for range 5 {
			c.mem(c.B, 8, nil)
		}
		_, h := c.mem(c.B, 8, nil)
		if _, err := c.A.QueryMem(h); err == nil {
			c.Skip("NIC A has used as many handles, so the handle is valid there, too")
		} else {
			c.is(err, vipl.ErrArgument)
		}
	}},
}

// queried checks that QueryMem of A returns want, except for the field Locked.
func (c *Case) queried(h vipl.MemHandle, want vipl.MemInfo) {
	c.Helper()
	got, err := c.A.QueryMem(h)
	c.is(err, nil)
	want.Locked = got.Locked
	if got != want {
		c.Errorf("%+v, want %+v", got, want)
	}
}

// allocates allocates memory from A, and checks that it has the requested length and is zeroed,
// page-aligned and writable.
func (c *Case) allocates(size int) {
	c.Helper()
	buf, h, err := c.A.AllocMem(size, remoteAccess())
	c.is(err, nil)
	if len(buf) != size || !filled(buf, 0) || vipl.VirtualAddress(buf)%uint64(os.Getpagesize()) != 0 {
		c.Errorf("%d bytes at %#x", len(buf), vipl.VirtualAddress(buf))
	}
	fill(buf, 1)
	c.queried(h, vipl.MemInfo{MemAttributes: *remoteAccess(), Addr: vipl.VirtualAddress(buf), Len: size})
	c.is(c.A.DeregisterMem(h), nil)
}

var ptagRules = []rule{
	{"VipCreatePtag", "New_DiffersFromAll", "2.5 V", anyLevel, func(c *Case) {
		p, q := c.ptag(c.A), c.ptag(c.A)
		if p == 0 || q == 0 || p == q {
			c.Error(p, q)
		}
	}},
	{"VipCreatePtag", "VIAndRegionAlike_Success", "11 V", allLevels, func(c *Case) {
		attr := c.attr()
		attr.Ptag = c.ptag(c.A)
		a, b := c.pairOf(attr, nil)
		c.works(a, b)
	}},
	rule{"VipCreatePtag", "MaxPtags_Resource", "3 V, 11 V", anyLevel, func(c *Case) {
		var all []vipl.Ptag
		p, err := c.A.CreatePtag()
		for ; err == nil && len(all) <= maxPtags; p, err = c.A.CreatePtag() {
			all = append(all, p)
		}
		c.is(err, vipl.ErrResource)
		if len(all) != c.A.Query().MaxPtags {
			c.Errorf("%d tags were made, want %d", len(all), c.A.Query().MaxPtags)
		}
		for _, p := range all {
			c.is(c.A.DestroyPtag(p), nil)
		}
		c.ptag(c.A)
	}}.own(),
	{"VipDestroyPtag", "Unused_Success", "2.5 V", anyLevel, func(c *Case) { c.is(c.A.DestroyPtag(c.ptag(c.A)), nil) }},
	{"VipDestroyPtag", "Twice_InvalidPtag", "3 V", anyLevel, func(c *Case) {
		p := c.ptag(c.A)
		c.is(c.A.DestroyPtag(p), nil)
		c.is(c.A.DestroyPtag(p), vipl.ErrInvalidPtag)
	}},
	{"VipDestroyPtag", "Unknown_InvalidPtag", "3 V", anyLevel, func(c *Case) { c.is(c.A.DestroyPtag(c.ptag(c.A)+1), vipl.ErrInvalidPtag) }},
	{"VipDestroyPtag", "NICsOwn_InvalidPtag", "doc", anyLevel, func(c *Case) { c.is(c.A.DestroyPtag(0), vipl.ErrInvalidPtag) }},
	{"VipDestroyPtag", "UsedByVI_Resource", "3 V", anyLevel, func(c *Case) {
		p := c.ptag(c.A)
		v := c.vi(c.A, &vipl.Attributes{Ptag: p})
		c.is(c.A.DestroyPtag(p), vipl.ErrResource)
		c.is(v.Close(), nil)
		c.is(c.A.DestroyPtag(p), nil)
	}},
	{"VipDestroyPtag", "UsedByRegion_Resource", "3 V", anyLevel, func(c *Case) {
		p := c.ptag(c.A)
		_, h := c.mem(c.A, 8, &vipl.MemAttributes{Ptag: p})
		c.is(c.A.DestroyPtag(p), vipl.ErrResource)
		c.is(c.A.DeregisterMem(h), nil)
		c.is(c.A.DestroyPtag(p), nil)
	}},
	{"VipDestroyPtag", "UsedByRefused_Success", "3 V", anyLevel, func(c *Case) {
		p := c.ptag(c.A)
		_, err := c.A.CreateVI(&vipl.Attributes{Ptag: p, QueueDepth: -1}, nil, nil)
		c.is(err, vipl.ErrArgument)
		_, err = c.A.RegisterMem(nil, &vipl.MemAttributes{Ptag: p})
		c.is(err, vipl.ErrArgument)
		c.is(c.A.DestroyPtag(p), nil)
	}},
}
