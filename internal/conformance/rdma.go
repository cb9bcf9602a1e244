package conformance

import (
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/drops"
	"github.com/bobnet-go/bobnet/vipl"
)

// writeRules returns rules that write data of every size into the peer's memory.
func writeRules() []rule {
	rs := append([]rule(nil), rdmaRules...)
	for _, size := range sizes {
		rs = append(rs, rule{"VipPostSend", "RDMAWrite_Size" + size.name + "_InPlace", "9 M", allLevels, func(c *Case) {
			n := size.of(c.dataMax(ethertype.RDMASize))
			a, b := c.pair()
			buf, h := c.mem(c.B, n+20, remoteAccess())
			keep := c.post(b, 8)
			s := c.write(a, n, vipl.VirtualAddress(buf)+7, h, false)
			c.sent(a, s, vipl.StatusOpRDMAWrite)
			c.send(a, 5, 1) // posted after the write: when this message has arrived, the write is complete
			c.gotData(b, keep, 5, 1)
			c.written(buf, n)
			if int(s.Length) != n {
				c.Error("length", s.Length)
			}
		}})
		rs = append(rs, rule{"VipPostSend", "RDMAWriteImmediate_Size" + size.name + "_SpendsReceive", "9 M", allLevels, func(c *Case) {
			n := size.of(c.dataMax(ethertype.RDMASize))
			a, b := c.pair()
			buf, h := c.mem(c.B, n+20, remoteAccess())
			r := c.post(b, 0)
			s := c.write(a, n, vipl.VirtualAddress(buf)+7, h, true)
			c.got(b, r, vipl.StatusOpRemoteRDMAWrite|vipl.StatusImmediate)
			c.sent(a, s, vipl.StatusOpRDMAWrite|vipl.StatusImmediate)
			c.written(buf, n)
			if int(r.Length) != n || !r.HasImmediate || r.Immediate != 0xCAFE {
				c.Errorf("length %d, immediate %v %#x", r.Length, r.HasImmediate, r.Immediate)
			}
		}})
	}
	return rs
}

// written checks that buf contains n bytes of write at offset 7, and is otherwise unchanged.
func (c *Case) written(buf []byte, n int) {
	c.Helper()
	c.B.Snapshot() // takes the engine's lock, because the race detector cannot see that the frames arrived earlier
	if !same(buf[7:7+n], n) || !filled(buf[:7], guardFill) || !filled(buf[7+n:], guardFill) {
		c.Errorf("the region does not contain exactly the written bytes")
	}
}

var rdmaRules = []rule{
	{"VipPostSend", "RDMAWrite_FirstByteOfRegion", "11 V", allLevels, func(c *Case) {
		a, b := c.pair()
		buf, h := c.mem(c.B, 64, remoteAccess())
		c.sent(a, c.write(a, 1, vipl.VirtualAddress(buf), h, false), vipl.StatusOpRDMAWrite)
		c.alive(a, b)
		if !same(buf[:1], 1) || !filled(buf[1:], guardFill) {
			c.Error(buf)
		}
	}},
	{"VipPostSend", "RDMAWrite_LastByteOfRegion", "11 V", allLevels, func(c *Case) {
		a, b := c.pair()
		buf, h := c.mem(c.B, 64, remoteAccess())
		c.sent(a, c.write(a, 1, vipl.VirtualAddress(buf)+63, h, false), vipl.StatusOpRDMAWrite)
		c.alive(a, b)
		if !same(buf[63:], 1) || !filled(buf[:63], guardFill) {
			c.Error(buf)
		}
	}},
	{"VipPostSend", "RDMAWrite_WholeRegion", "11 V", allLevels, func(c *Case) {
		a, b := c.pair()
		buf, h := c.mem(c.B, 6000, remoteAccess())
		c.sent(a, c.write(a, 6000, vipl.VirtualAddress(buf), h, false), vipl.StatusOpRDMAWrite)
		c.alive(a, b)
		if !same(buf, 6000) {
			c.Error("some bytes of the write are missing")
		}
	}},
	{"VipPostSend", "RDMAWrite_NoReceiveSpent", "9 M", allLevels, func(c *Case) {
		a, b := c.pair()
		buf, h := c.mem(c.B, 64, remoteAccess())
		c.post(b, 8)
		c.sent(a, c.write(a, 8, vipl.VirtualAddress(buf), h, false), vipl.StatusOpRDMAWrite)
		c.pending(receives(b))
	}},
	{"VipPostSend", "RDMAWrite_NeedsNoReceive", "9 M", allLevels, func(c *Case) {
		a, b := c.pair()
		buf, h := c.mem(c.B, 64, remoteAccess())
		c.sent(a, c.write(a, 8, vipl.VirtualAddress(buf), h, false), vipl.StatusOpRDMAWrite)
		c.alive(a, b)
	}},
	{"VipPostSend", "RDMAWriteImmediate_NoReceive_Unreliable_Dropped", "9 M", unreliable, func(c *Case) {
		a, b := c.pair()
		buf, h := c.mem(c.B, 64, remoteAccess())
		c.sent(a, c.write(a, 8, vipl.VirtualAddress(buf), h, true), vipl.StatusOpRDMAWrite|vipl.StatusImmediate)
		c.alive(a, b)
		c.works(a, b)
	}},
	{"VipPostSend", "RDMAWriteImmediate_NoReceive_Breaks", "10 V", reliable, func(c *Case) {
		a, b := c.pair()
		buf, h := c.mem(c.B, 64, remoteAccess())
		s := c.write(a, 8, vipl.VirtualAddress(buf), h, true)
		c.sent(a, s, vipl.StatusOpRDMAWrite|c.blamed())
		c.ended(vipl.ErrRecvQueue, a, b)
		if !filled(buf, guardFill) {
			c.Error("the region was written to")
		}
	}},
	{"VipPostSend", "RDMAWriteImmediate_ReceivesMemoryUntouched", "9 M", allLevels, func(c *Case) {
		a, b := c.pair()
		buf, h := c.mem(c.B, 64, remoteAccess())
		r := c.post(b, 64)
		c.write(a, 8, vipl.VirtualAddress(buf), h, true)
		c.got(b, r, vipl.StatusOpRemoteRDMAWrite|vipl.StatusImmediate)
		if !filled(r.Segs[0].Data, guardFill) {
			c.Error("the receive's own memory was written to")
		}
	}},
	{"VipPostSend", "RDMAWrite_Gathered", "5 V", allLevels, func(c *Case) {
		a, b := c.pair()
		buf, h := c.mem(c.B, 3000, remoteAccess())
		s := c.buffer(a, 1000)
		fill(s.Segs[0].Data, 2)
		for range 2 {
			s.Segs = append(s.Segs, s.Segs[0])
		}
		s.Op, s.Remote = vipl.OpRDMAWrite, vipl.RemoteSegment{Addr: vipl.VirtualAddress(buf), Handle: h}
		c.is(a.PostSend(s), nil)
		c.sent(a, s, vipl.StatusOpRDMAWrite)
		c.alive(a, b)
		for i := range 3 {
			if !same(buf[i*1000:(i+1)*1000], 2) {
				c.Error("piece", i)
			}
		}
	}},
	{"VipPostSend", "RDMAWrites_InOrder", "10 M", reliable, func(c *Case) {
		a, b := c.pair()
		buf, h := c.mem(c.B, 5000, remoteAccess())
		r := c.post(b, 8)
		for i := range 12 { // over each other
			s := c.buffer(a, 5000-i*100)
			fill(s.Segs[0].Data, i)
			s.Op, s.Remote = vipl.OpRDMAWrite, vipl.RemoteSegment{Addr: vipl.VirtualAddress(buf), Handle: h}
			c.is(a.PostSend(s), nil)
		}
		c.send(a, 8, 1)
		c.got(b, r, vipl.StatusOpReceive)
		if !same(buf[:3900], 11) {
			c.Error("the last write is not on top")
		}
	}},
	{"VipPostSend", "RDMAWriteBeforeMessage_InPlaceFirst", "doc", reliable, func(c *Case) {
		a, b := c.pair()
		buf, h := c.mem(c.B, 100_000, remoteAccess())
		r := c.post(b, 8)
		c.write(a, 99_000, vipl.VirtualAddress(buf)+7, h, false)
		c.send(a, 8, 1)
		c.gotData(b, r, 8, 1)
		c.written(buf, 99_000)
	}},
	{"VipPostSend", "RDMAWriteOfNothing_TouchesNothing", "5 V", allLevels, func(c *Case) {
		a, b := c.pair()
		s := &vipl.Descriptor{Op: vipl.OpRDMAWrite}
		c.is(a.PostSend(s), nil)
		c.sent(a, s, vipl.StatusOpRDMAWrite)
		c.alive(a, b)
	}},
	{"VipPostSend", "RDMAWrite_OwnRightsDoNotMatter", "11 V", allLevels, func(c *Case) {
		attr := c.attr()
		attr.EnableRDMAWrite = false
		a, b := c.pairOf(attr, nil)
		buf, h := c.mem(c.B, 64, remoteAccess())
		c.sent(a, c.write(a, 8, vipl.VirtualAddress(buf), h, false), vipl.StatusOpRDMAWrite)
		c.alive(a, b)
		if !same(buf[:8], 8) {
			c.Error("it was not written")
		}
	}},
	{"VipPostSend", "RDMAWrite_PeersBytesCounted", "doc", allLevels, func(c *Case) {
		a, b := c.pair()
		buf, h := c.mem(c.B, 5000, remoteAccess())
		c.sent(a, c.write(a, 4000, vipl.VirtualAddress(buf), h, false), vipl.StatusOpRDMAWrite)
		c.await("the bytes", func() bool { return b.Snapshot().RDMABytes == 4000 })
	}},
}

const room = 4096

// forbidden is a write that the owner of the memory does not allow.
type forbidden struct {
	name string
	mem  *vipl.MemAttributes // nil: peers have no access
	noVI bool                // the VI does not allow writes
	tag  bool                // the region has another tag than the VI
	gone bool                // the region has been deregistered
	size int
	at   func(addr uint64, h vipl.MemHandle) (uint64, vipl.MemHandle)
}

var forbiddenWrites = []forbidden{
	{name: "BeforeRegion", mem: remoteAccess(), size: 8, at: func(a uint64, h vipl.MemHandle) (uint64, vipl.MemHandle) { return a - 1, h }},
	{name: "BehindRegion", mem: remoteAccess(), size: 8, at: func(a uint64, h vipl.MemHandle) (uint64, vipl.MemHandle) { return a + room, h }},
	{name: "OneByteBeyondRegion", mem: remoteAccess(), size: 8, at: func(a uint64, h vipl.MemHandle) (uint64, vipl.MemHandle) { return a + room - 7, h }},
	{name: "LastFrameBeyondRegion", mem: remoteAccess(), size: room + 1},
	{name: "MuchLongerThanRegion", mem: remoteAccess(), size: 30 * room},
	{name: "AddressWraps", mem: remoteAccess(), size: 8, at: func(a uint64, h vipl.MemHandle) (uint64, vipl.MemHandle) { return ^uint64(0) - 3, h }},
	{name: "AddressZero", mem: remoteAccess(), size: 8, at: func(a uint64, h vipl.MemHandle) (uint64, vipl.MemHandle) { return 0, h }},
	{name: "RegionForbids", size: 8},
	{name: "VIForbids", mem: remoteAccess(), noVI: true, size: 8},
	{name: "OtherPtag", mem: remoteAccess(), tag: true, size: 8},
	{name: "ZeroHandle", mem: remoteAccess(), size: 8, at: func(a uint64, h vipl.MemHandle) (uint64, vipl.MemHandle) { return a, 0 }},
	{name: "OldGeneration", mem: remoteAccess(), size: 8, at: func(a uint64, h vipl.MemHandle) (uint64, vipl.MemHandle) { return a, h - 1<<20 }},
	{name: "UnknownSlot", mem: remoteAccess(), size: 8, at: func(a uint64, h vipl.MemHandle) (uint64, vipl.MemHandle) { return a, h | 0xFFFFF }},
	{name: "DeregisteredRegion", mem: remoteAccess(), gone: true, size: 8},
}

func forbiddenRules() (rs []rule) {
	for _, f := range forbiddenWrites {
		for _, imm := range []bool{false, true} {
			name, flags := f.name, vipl.Status(0)
			if imm {
				name, flags = name+"Immediate", vipl.StatusImmediate
			}
			rs = append(rs,
				rule{"VipPostSend", "RDMAWrite_" + name + "_Dropped", "7 V, 10 M", unreliable, func(c *Case) {
					a, b, s, buf, r := c.forbids(&f, imm)
					c.sent(a, s, vipl.StatusOpRDMAWrite|flags)
					c.alive(a, b)
					if imm { // the receive gets the status (section 7, V)
						c.got(b, r, vipl.StatusOpRemoteRDMAWrite|vipl.StatusRDMAProtError)
					} else {
						c.pending(receives(b))
					}
					if c.dropped(c.B, drops.RDMA) == 0 {
						c.Error("the drop was not counted")
					}
					c.untouched(buf, r)
				}},
				rule{"VipPostSend", "RDMAWrite_" + name + "_ProtectionErrorAndBreak", "7 V, 10 M", reliable, func(c *Case) {
					a, b, s, buf, r := c.forbids(&f, imm)
					c.sent(a, s, vipl.StatusOpRDMAWrite|vipl.StatusRDMAProtError)
					c.ended(vipl.ErrRDMA, a, b)
					if imm {
						c.got(b, r, vipl.StatusOpRemoteRDMAWrite|vipl.StatusRDMAProtError)
					} else {
						c.got(b, r, vipl.StatusOpReceive|vipl.StatusFlushed)
					}
					c.untouched(buf, r)
				}})
		}
	}
	return rs
}

// forbids posts a write on a that b must refuse.
func (c *Case) forbids(f *forbidden, imm bool) (a, b *vipl.VI, s *vipl.Descriptor, buf []byte, r *vipl.Descriptor) {
	c.Helper()
	attr := c.attr()
	attr.EnableRDMAWrite = !f.noVI
	a, b = c.pairOf(nil, attr)
	mem := f.mem
	if f.tag {
		mem = &vipl.MemAttributes{Ptag: c.ptag(c.B), EnableRDMAWrite: true}
	}
	buf, h := c.mem(c.B, room, mem)
	addr := vipl.VirtualAddress(buf)
	if f.at != nil {
		addr, h = f.at(addr, h)
	}
	if f.gone {
		c.is(c.B.DeregisterMem(h), nil)
	}
	r = c.post(b, 16)
	return a, b, c.write(a, f.size, addr, h, imm), buf, r
}

// untouched checks that the memory of buf and r is unchanged.
func (c *Case) untouched(buf []byte, r *vipl.Descriptor) {
	c.Helper()
	if !filled(buf, guardFill) || !filled(r.Segs[0].Data, guardFill) {
		c.Error("the region was written to")
	}
}
