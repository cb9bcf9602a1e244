package vipl_test

import (
	"bytes"
	"testing"

	"github.com/bobnet-go/bobnet/internal/drops"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/vipl"
)

// eachLevel runs a test on a connected pair of each level.
func eachLevel(t *testing.T, levels []reliability.Level, run func(t *testing.T, d *duo, level reliability.Level)) {
	for _, level := range levels {
		t.Run(level.String(), func(t *testing.T) {
			attr := vipl.Attributes{Reliability: level, EnableRDMAWrite: true}
			run(t, newDuo(t, &attr, &attr), level)
		})
	}
}

// blamed is the status of a send that a reliable peer could not take.
func blamed(level reliability.Level) vipl.Status {
	if level == reliability.ReliableReception {
		return vipl.StatusRemoteDescError
	}
	return vipl.StatusTransportError
}

// TestTooLong sends more than the posted receive holds, alone, behind a
// message that fits, in several frames and packed with others.
func TestTooLong(t *testing.T) {
	for _, size := range []int{9, 5000} {
		eachLevel(t, levels, func(t *testing.T, d *duo, level reliability.Level) {
			fits, small, later := d.post(d.b, size), d.post(d.b, 8), d.post(d.b, size)
			s1, s2 := d.send(d.a, size), d.send(d.a, size)
			d.run()
			s3 := d.send(d.a, 4)
			d.run()
			x, err := d.b.RecvDone()
			d.took(x, err, fits, vipl.StatusOpReceive)
			x, err = d.b.RecvDone()
			d.took(x, err, small, vipl.StatusOpReceive|vipl.StatusLengthError)
			if small.Length != 0 || !bytes.Equal(small.Segs[0].Data, bytes.Repeat([]byte{0xA5}, 8)) {
				t.Errorf("%d bytes were written", small.Length)
			}
			x, err = d.a.SendDone()
			d.took(x, err, s1, vipl.StatusOpSend)
			if level == reliability.Unreliable {
				d.alive()
				x, err = d.a.SendDone()
				d.took(x, err, s2, vipl.StatusOpSend)
				x, err = d.b.RecvDone()
				d.took(x, err, later, vipl.StatusOpReceive)
				return
			}
			d.ended(vipl.ErrTooLong)
			x, err = d.b.RecvDone()
			d.took(x, err, later, vipl.StatusOpReceive|vipl.StatusFlushed)
			x, err = d.a.SendDone()
			d.took(x, err, s2, vipl.StatusOpSend|blamed(level))
			x, err = d.a.SendDone()
			d.took(x, err, s3, vipl.StatusOpSend|vipl.StatusFlushed)
		})
	}
}

// TestTooLongPacked has the message that does not fit share a frame.
func TestTooLongPacked(t *testing.T) {
	eachLevel(t, levels, func(t *testing.T, d *duo, level reliability.Level) {
		var receives []*vipl.Descriptor
		for range 8 {
			receives = append(receives, d.post(d.b, 100))
		}
		for i := range 8 { // behind the first two they are corked
			d.send(d.a, []int{1, 2, 3, 4, 5, 101, 7, 8}[i])
		}
		d.run()
		for i, r := range receives {
			x, err := d.b.RecvDone()
			switch {
			case i == 5:
				d.took(x, err, r, vipl.StatusOpReceive|vipl.StatusLengthError)
			case i < 5 || level == reliability.Unreliable:
				d.took(x, err, r, vipl.StatusOpReceive)
				if r.Length != uint32(i+1) {
					t.Errorf("message %d has %d bytes", i, r.Length)
				}
			default:
				d.took(x, err, r, vipl.StatusOpReceive|vipl.StatusFlushed)
			}
		}
		if level != reliability.Unreliable {
			d.ended(vipl.ErrTooLong)
		}
	})
}

// TestNoReceivePosted sends more messages than receives are posted.
func TestNoReceivePosted(t *testing.T) {
	for _, size := range []int{8, 5000} {
		eachLevel(t, levels, func(t *testing.T, d *duo, level reliability.Level) {
			r := d.post(d.b, size)
			s1, s2 := d.send(d.a, size), d.send(d.a, size)
			d.run()
			x, err := d.b.RecvDone()
			d.took(x, err, r, vipl.StatusOpReceive)
			x, err = d.a.SendDone()
			d.took(x, err, s1, vipl.StatusOpSend)
			x, err = d.a.SendDone()
			if level == reliability.Unreliable {
				d.alive()
				d.took(x, err, s2, vipl.StatusOpSend)
				if n := d.nb.Snapshot().Dropped; n[drops.NoReceive] == 0 || d.b.Snapshot().Dropped != n {
					t.Errorf("the NIC counted the drops %v, the VI %v", n, d.b.Snapshot().Dropped)
				}
				r := d.post(d.b, size) // the next message finds a receive
				d.send(d.a, size)
				d.run()
				x, err = d.b.RecvDone()
				d.took(x, err, r, vipl.StatusOpReceive)
				return
			}
			d.took(x, err, s2, vipl.StatusOpSend|blamed(level))
			d.ended(vipl.ErrRecvQueue)
		})
	}
}

// write posts an RDMA write of size bytes on v.
func (d *duo) write(v *vipl.VI, size int, addr uint64, h vipl.MemHandle, imm bool) *vipl.Descriptor {
	d.t.Helper()
	buf, lh := d.buffer(v.NIC(), max(size, 1), nil)
	s := &vipl.Descriptor{Op: vipl.OpRDMAWrite, HasImmediate: imm, Immediate: 0xCAFE,
		Segs: []vipl.Segment{{Data: buf[:size], Handle: lh}}, Remote: vipl.RemoteSegment{Addr: addr, Handle: h}}
	for i := range size {
		buf[i] = 0x5A
	}
	if err := v.PostSend(s); err != nil {
		d.t.Fatal(err)
	}
	return s
}

// TestRDMAWrite writes with and without immediate data, of several sizes.
func TestRDMAWrite(t *testing.T) {
	for _, size := range []int{0, 1, 300, 1436, 1437, 20_000} {
		for _, imm := range []bool{false, true} {
			eachLevel(t, levels, func(t *testing.T, d *duo, level reliability.Level) {
				buf, h := d.buffer(d.nb, 30_000, &vipl.MemAttributes{EnableRDMAWrite: true})
				r := d.post(d.b, 0)
				flags := vipl.Status(0)
				if imm {
					flags = vipl.StatusImmediate
				}
				s := d.write(d.a, size, vipl.VirtualAddress(buf)+7, h, imm)
				d.run()
				x, err := d.a.SendDone()
				d.took(x, err, s, vipl.StatusOpRDMAWrite|flags)
				if !bytes.Equal(buf[7:7+size], bytes.Repeat([]byte{0x5A}, size)) || buf[6] != 0xA5 || buf[7+size] != 0xA5 {
					t.Error("the region does not hold what was written, or more")
				}
				x, err = d.b.RecvDone()
				if !imm {
					if x != nil || err != vipl.ErrNotDone {
						t.Errorf("a write without immediate data spent a receive: %v", err)
					}
					return
				}
				d.took(x, err, r, vipl.StatusOpRemoteRDMAWrite|vipl.StatusImmediate)
				if r.Immediate != 0xCAFE || int(r.Length) != size {
					t.Errorf("immediate %#x, length %d", r.Immediate, r.Length)
				}
			})
		}
	}
}

// TestRDMAForbidden tries every write that the owner does not allow: VIA's
// error at both sides on the reliable levels, a counted drop on the unreliable
// one, and nothing written.
func TestRDMAForbidden(t *testing.T) {
	const room = 4096
	open := vipl.MemAttributes{EnableRDMAWrite: true}
	for _, c := range []struct {
		name string
		mem  vipl.MemAttributes
		noVI bool // the VI does not allow writes
		tag  bool // the region has another tag than the VI
		size int
		at   func(addr uint64, h vipl.MemHandle) (uint64, vipl.MemHandle)
	}{
		{name: "BeforeTheRegion", mem: open, size: 8, at: func(a uint64, h vipl.MemHandle) (uint64, vipl.MemHandle) { return a - 1, h }},
		{name: "BehindTheRegion", mem: open, size: 8, at: func(a uint64, h vipl.MemHandle) (uint64, vipl.MemHandle) { return a + room, h }},
		{name: "OneByteBeyond", mem: open, size: 8, at: func(a uint64, h vipl.MemHandle) (uint64, vipl.MemHandle) { return a + room - 7, h }},
		{name: "LastFrameBeyond", mem: open, size: room + 1},
		{name: "MiddleFrameBeyond", mem: open, size: 3 * room},
		{name: "AddressWraps", mem: open, size: 8, at: func(a uint64, h vipl.MemHandle) (uint64, vipl.MemHandle) { return ^uint64(0) - 3, h }},
		{name: "LongWriteWraps", mem: open, size: 8000, at: func(a uint64, h vipl.MemHandle) (uint64, vipl.MemHandle) { return ^uint64(0) - 2000, h }},
		{name: "RegionForbids", size: 8},
		{name: "VIForbids", mem: open, noVI: true, size: 8},
		{name: "OtherPtag", mem: open, tag: true, size: 8},
		{name: "ZeroHandle", mem: open, size: 8, at: func(a uint64, h vipl.MemHandle) (uint64, vipl.MemHandle) { return a, 0 }},
		{name: "OldGeneration", mem: open, size: 8, at: func(a uint64, h vipl.MemHandle) (uint64, vipl.MemHandle) { return a, h - 1<<20 }},
		{name: "UnknownSlot", mem: open, size: 8, at: func(a uint64, h vipl.MemHandle) (uint64, vipl.MemHandle) { return a, h + 77 }},
	} {
		for _, imm := range []bool{false, true} {
			name := c.name
			if imm {
				name += "Immediate"
			}
			t.Run(name, func(t *testing.T) {
				for _, level := range levels {
					t.Run(level.String(), func(t *testing.T) {
						attr := vipl.Attributes{Reliability: level, EnableRDMAWrite: !c.noVI}
						d := newDuo(t, &attr, &attr)
						mem := c.mem
						if c.tag {
							mem.Ptag, _ = d.nb.CreatePtag()
						}
						buf, h := d.buffer(d.nb, room, &mem)
						addr := vipl.VirtualAddress(buf)
						if c.at != nil {
							addr, h = c.at(addr, h)
						}
						r := d.post(d.b, 16)
						s := d.write(d.a, c.size, addr, h, imm)
						d.run()
						if !bytes.Equal(buf, bytes.Repeat([]byte{0xA5}, room)) {
							t.Error("the region was written to")
						}
						d.forbidden(level, s, r)
					})
				}
			})
		}
	}
}

// forbidden checks how a forbidden RDMA write ended.
func (d *duo) forbidden(level reliability.Level, s, r *vipl.Descriptor) {
	d.t.Helper()
	x, err := d.a.SendDone()
	if level == reliability.Unreliable {
		flags := vipl.Status(0)
		if s.HasImmediate {
			flags = vipl.StatusImmediate
		}
		d.took(x, err, s, vipl.StatusOpRDMAWrite|flags)
		d.alive()
		if d.nb.Snapshot().Dropped[drops.RDMA] == 0 {
			d.t.Error("the drop was not counted")
		}
		x, err := d.b.RecvDone()
		if s.HasImmediate {
			d.took(x, err, r, vipl.StatusOpRemoteRDMAWrite|vipl.StatusRDMAProtError)
		} else if err != vipl.ErrNotDone {
			d.t.Errorf("a receive was spent: %v, %v", x, err)
		}
		return
	}
	d.took(x, err, s, vipl.StatusOpRDMAWrite|vipl.StatusRDMAProtError)
	d.ended(vipl.ErrRDMA)
	x, err = d.b.RecvDone()
	if s.HasImmediate {
		d.took(x, err, r, vipl.StatusOpRemoteRDMAWrite|vipl.StatusRDMAProtError)
	} else {
		d.took(x, err, r, vipl.StatusOpReceive|vipl.StatusFlushed)
	}
}

// TestRDMAStaleHandle writes to a region that its owner has forgotten.
func TestRDMAStaleHandle(t *testing.T) {
	eachLevel(t, levels, func(t *testing.T, d *duo, level reliability.Level) {
		buf, h := d.buffer(d.nb, 64, &vipl.MemAttributes{EnableRDMAWrite: true})
		if err := d.nb.DeregisterMem(h); err != nil {
			t.Fatal(err)
		}
		other, _ := d.buffer(d.nb, 64, &vipl.MemAttributes{EnableRDMAWrite: true}) // takes the same slot
		r := d.post(d.b, 16)
		s := d.write(d.a, 8, vipl.VirtualAddress(other), h, false)
		d.run()
		for _, b := range [][]byte{buf, other} {
			if !bytes.Equal(b, bytes.Repeat([]byte{0xA5}, 64)) {
				t.Error("a region was written to")
			}
		}
		d.forbidden(level, s, r)
	})
}
