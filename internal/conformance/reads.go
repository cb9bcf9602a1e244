package conformance

import (
	"github.com/bobnet-go/bobnet/vipl"
)

// read posts an RDMA read of size bytes.
func (c *Case) read(v *vipl.VI, size int, addr uint64, h vipl.MemHandle) *vipl.Descriptor {
	c.Helper()
	d := c.buffer(v, size)
	d.Op, d.Remote = vipl.OpRDMARead, vipl.RemoteSegment{Addr: addr, Handle: h}
	if err := v.PostSend(d); err != nil {
		c.Fatal(err)
	}
	return d
}

// source returns memory of B that peers may read, filled by fill.
func (c *Case) source(size, seed int) ([]byte, uint64, vipl.MemHandle) {
	c.Helper()
	buf, h := c.mem(c.B, max(size, 1), remoteAccess())
	fill(buf, seed)
	c.B.QueryMem(h) // takes the NIC's lock, because the race detector cannot see that the peer's request arrives later
	return buf, vipl.VirtualAddress(buf), h
}

// hasRead waits until a read has completed, and checks that it has read the bytes of fill.
func (c *Case) hasRead(v *vipl.VI, d *vipl.Descriptor, size, seed int) {
	c.Helper()
	c.sent(v, d, vipl.StatusOpRDMARead)
	if int(d.Length) != size || !same(d.Segs[0].Data[:size], seed) {
		c.Fatalf("read %d bytes, want the %d bytes of region %d", d.Length, size, seed)
	}
}

// readRules returns rules that read the peer's memory.
func readRules() []rule {
	rs := append([]rule(nil), rdmaReadRules...)
	for _, size := range sizes {
		rs = append(rs, rule{"VipPostSend", "RDMARead_Size" + size.name + "_Read", "5 V, 9 M", reliable, func(c *Case) {
			n := size.of(c.dataMax(0))
			a, b := c.pair()
			c.post(b, 8)
			buf, addr, h := c.source(n, 4)
			c.hasRead(a, c.read(a, n, addr, h), n, 4)
			if !same(buf, 4) {
				c.Error("the peer's memory has changed")
			}
			c.pending(receives(b)) // the read has used no receive
		}})
	}
	for _, f := range forbiddenReads {
		rs = append(rs, rule{"VipPostSend", "RDMARead_" + f.name + "_ProtectionErrorAndBreak", "7 V, 10 M", reliable, func(c *Case) {
			attr := c.attr()
			attr.EnableRDMARead = !f.noVI
			a, b := c.pairOf(nil, attr)
			mem := *remoteAccess()
			if mem.EnableRDMARead = f.mem != nil; f.tag {
				mem.Ptag = c.ptag(c.B)
			}
			buf, h := c.mem(c.B, room, &mem)
			addr := vipl.VirtualAddress(buf)
			if f.at != nil {
				addr, h = f.at(addr, h)
			}
			if f.gone {
				c.is(c.B.DeregisterMem(h), nil)
			}
			d := c.read(a, f.size, addr, h)
			c.sent(a, d, vipl.StatusOpRDMARead|vipl.StatusRDMAProtError)
			c.ended(vipl.ErrRDMA, a, b)
			if d.Length != 0 {
				c.Error("length", d.Length)
			}
		}})
	}
	return rs
}

// forbiddenReads contains the reads that the owner of the memory does not allow: the same cases as
// for writes.
var forbiddenReads = forbiddenWrites

var rdmaReadRules = []rule{
	{"VipQueryNic", "RDMAReadSupport", "11 V", anyLevel, func(c *Case) {
		if !c.A.Query().RDMAReadSupport {
			c.Error("not supported")
		}
	}},
	{"VipPostSend", "RDMARead_Unreliable_InvalidRDMARead", "10 V", unreliable, func(c *Case) {
		a, b := c.pair()
		_, addr, h := c.source(8, 1)
		d := c.buffer(a, 8)
		d.Op, d.Remote = vipl.OpRDMARead, vipl.RemoteSegment{Addr: addr, Handle: h}
		c.is(a.PostSend(d), vipl.ErrInvalidRDMARead)
		c.queues(a, true, true)
		c.is(c.A.DeregisterMem(d.Segs[0].Handle), nil)
		c.alive(a, b)
	}},
	{"VipPostSend", "RDMAReadWithImmediate_InvalidParameter", "5 V", reliable, func(c *Case) {
		a, _ := c.pair()
		d := &vipl.Descriptor{Op: vipl.OpRDMARead, HasImmediate: true}
		c.is(a.PostSend(d), vipl.ErrArgument)
		if d.Status != vipl.StatusFormatError {
			c.Error(d.Status)
		}
	}},
	{"VipPostSend", "RDMARead_OverMaxTransferSize_InvalidParameter", "3 V", reliable, func(c *Case) {
		attr := c.attr()
		attr.MaxTransferSize = 100
		a, _ := c.pairOf(attr, attr)
		d := c.buffer(a, 101)
		d.Op = vipl.OpRDMARead
		c.is(a.PostSend(d), vipl.ErrArgument)
	}},
	{"VipPostSend", "RDMAReadInIdle_FlushedWithItsOperation", "4 M", reliable, func(c *Case) {
		a := c.vi(c.A, nil)
		c.sent(a, c.read(a, 8, 1, 1), vipl.StatusOpRDMARead|vipl.StatusFlushed)
	}},
	{"VipPostSend", "RDMARead_Scattered", "5 V", reliable, func(c *Case) {
		a, _ := c.pair()
		_, addr, h := c.source(5000, 2)
		d := c.buffer(a, 1000)
		for _, n := range []int{0, 3, 2997, 1000} {
			d.Segs = append(d.Segs, c.buffer(a, n).Segs...)
		}
		d.Op, d.Remote = vipl.OpRDMARead, vipl.RemoteSegment{Addr: addr, Handle: h}
		c.is(a.PostSend(d), nil)
		c.sent(a, d, vipl.StatusOpRDMARead)
		var all []byte
		for _, s := range d.Segs {
			all = append(all, s.Data...)
		}
		if !same(all, 2) || len(all) != 5000 {
			c.Error("the segments together do not equal the region")
		}
	}},
	{"VipPostSend", "RDMARead_PartOfRegion", "11 V", reliable, func(c *Case) {
		a, _ := c.pair()
		buf, addr, h := c.source(5000, 2)
		d := c.read(a, 1000, addr+4000, h)
		c.sent(a, d, vipl.StatusOpRDMARead)
		if string(d.Segs[0].Data) != string(buf[4000:]) {
			c.Error("the read returned a different part of the region")
		}
	}},
	{"VipPostSend", "RDMARead_OwnRightsDoNotMatter", "11 V", reliable, func(c *Case) {
		attr := c.attr()
		attr.EnableRDMARead = false
		a, _ := c.pairOf(attr, nil)
		_, addr, h := c.source(100, 2)
		c.hasRead(a, c.read(a, 100, addr, h), 100, 2)
	}},
	{"VipPostSend", "RDMAReads_ManyInOrder", "9 M", reliable, func(c *Case) {
		a, _ := c.pair()
		var ds []*vipl.Descriptor
		for i := range 40 { // more than a peer serves at the same time
			_, addr, h := c.source(i*100, i)
			ds = append(ds, c.read(a, i*100, addr, h))
		}
		for i, d := range ds {
			c.hasRead(a, d, i*100, i)
		}
	}},
	{"VipPostSend", "RDMARead_ReadDepthOne_ManyServed", "doc", reliable, func(c *Case) {
		attr := c.attr()
		attr.ReadDepth = 1
		a, b := c.pairOf(nil, attr)
		_, addr, h := c.source(3000, 5)
		var ds []*vipl.Descriptor
		for range 8 {
			ds = append(ds, c.read(a, 3000, addr, h))
		}
		for _, d := range ds {
			c.hasRead(a, d, 3000, 5)
		}
		c.alive(a, b)
	}},
	{"VipPostSend", "RDMAReadBothWays_Read", "9 M", reliable, func(c *Case) {
		a, b := c.pair()
		_, addr, h := c.source(20_000, 1)
		mine, k := c.mem(c.A, 30_000, remoteAccess())
		fill(mine, 2)
		x, y := c.read(a, 20_000, addr, h), c.read(b, 30_000, vipl.VirtualAddress(mine), k)
		c.hasRead(a, x, 20_000, 1)
		c.hasRead(b, y, 30_000, 2)
	}},
	{"VipPostSend", "RDMAReadAndMessages_CompleteInOrder", "4 M", reliable, func(c *Case) {
		a, b := c.pair()
		_, addr, h := c.source(9000, 1)
		r1, r2 := c.post(b, 10), c.post(b, 10)
		s1, d, s2 := c.send(a, 8, 1), c.read(a, 9000, addr, h), c.send(a, 9, 2)
		c.sent(a, s1, vipl.StatusOpSend)
		c.hasRead(a, d, 9000, 1)
		c.sent(a, s2, vipl.StatusOpSend)
		c.gotData(b, r1, 8, 1)
		c.gotData(b, r2, 9, 2)
	}},
	{"VipPostSend", "WriteThenRead_SeesWhatWasWritten", "9 M", reliable, func(c *Case) {
		a, _ := c.pair()
		buf, h := c.mem(c.B, 6000, remoteAccess())
		w := c.write(a, 6000, vipl.VirtualAddress(buf), h, false)
		d := c.read(a, 6000, vipl.VirtualAddress(buf), h)
		c.sent(a, w, vipl.StatusOpRDMAWrite)
		c.hasRead(a, d, 6000, 6000)
	}},
	{"VipPostSend", "FencedWriteAfterRead_ReadSeesOld", "5 V, 9 M", reliable, func(c *Case) {
		a, b := c.pair()
		buf, addr, h := c.source(60_000, 1)
		d := c.read(a, 60_000, addr, h)
		w := c.buffer(a, 60_000)
		fill(w.Segs[0].Data, 2)
		w.Op, w.Remote, w.Fence = vipl.OpRDMAWrite, vipl.RemoteSegment{Addr: addr, Handle: h}, true
		c.is(a.PostSend(w), nil)
		c.hasRead(a, d, 60_000, 1)
		c.sent(a, w, vipl.StatusOpRDMAWrite)
		c.alive(b)
		if !same(buf, 2) {
			c.Error("the write is not in place")
		}
	}},
	{"VipPostSend", "FencedSendAfterRead_CompletesAfter", "5 V", reliable, func(c *Case) {
		a, b := c.pair()
		_, addr, h := c.source(60_000, 1)
		r := c.post(b, 8)
		d := c.read(a, 60_000, addr, h)
		s := c.buffer(a, 8)
		fill(s.Segs[0].Data, 3)
		s.Fence = true
		c.is(a.PostSend(s), nil)
		c.await("the message", func() bool {
			arrived := b.Snapshot().Receives == 1
			if arrived && a.Snapshot().SendsDone == 0 {
				c.Fatal("a fenced message has overtaken the read")
			}
			return arrived
		})
		c.hasRead(a, d, 60_000, 1)
		c.sent(a, s, vipl.StatusOpSend)
		c.gotData(b, r, 8, 3)
	}},
	{"VipPostSend", "FenceWithoutRead_Harmless", "5 V", allLevels, func(c *Case) {
		a, b := c.pair()
		r, s := c.post(b, 8), c.buffer(a, 8)
		fill(s.Segs[0].Data, 3)
		s.Fence = true
		c.is(a.PostSend(s), nil)
		c.gotData(b, r, 8, 3)
		c.sent(a, s, vipl.StatusOpSend)
	}},
	{"VipDisconnect", "RDMARead_FlushedInOrder", "4 M", reliable, func(c *Case) {
		a, _ := c.pair()
		_, addr, h := c.source(200_000, 1)
		x, y := c.read(a, 200_000, addr, h), c.read(a, 200_000, addr, h)
		c.is(a.Disconnect(), nil)
		c.flushedFrom([]*vipl.Descriptor{x, y}, sends(a), vipl.StatusOpRDMARead)
		c.is(c.A.DeregisterMem(x.Segs[0].Handle), nil)
	}},
	{"VipSendDone", "RDMARead_CompletedMeansPlaced", "9 M", reliable, func(c *Case) {
		a, _ := c.pair()
		_, addr, h := c.source(50_000, 1)
		d := c.read(a, 50_000, addr, h)
		c.sent(a, d, vipl.StatusOpRDMARead)
		if !same(d.Segs[0].Data, 1) {
			c.Error("the read has completed, its data is not in place")
		}
	}},
	{"VipCQDone", "RDMARead_NamesSendQueue", "9 V", reliable, func(c *Case) {
		_, b, q := c.bound(4)
		buf, h := c.mem(c.A, 64, remoteAccess())
		c.read(b, 64, vipl.VirtualAddress(buf), h)
		c.entry(c.B, q, b, false)
		c.noEntry(q)
	}},
}

// readsUnderFaults returns rules that read over links with each kind of fault.
func readsUnderFaults() (rs []rule) {
	for _, f := range faults {
		rs = append(rs, rule{"VipPostSend", "RDMAReadUnder" + f.name + "_Read", "10 M", reliable, func(c *Case) {
			c.faulty(f.o)
			a, b := c.pair()
			for i := range 10 {
				_, addr, h := c.source(5000, i)
				r := c.post(b, 8)
				d := c.read(a, 5000, addr, h)
				s := c.send(a, 6, i)
				c.hasRead(a, d, 5000, i)
				c.sent(a, s, vipl.StatusOpSend)
				c.gotData(b, r, 6, i)
			}
		}})
	}
	return rs
}
