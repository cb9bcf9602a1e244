package hardware

import (
	"errors"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/transport"
)

// outlet is the sending half of a live cable's end: frames that the link has not taken
// yet, and what of them the neighbour has room for.
type outlet struct {
	seq    ethertype.Seq // of the next frame
	limit  ethertype.Seq // frames up to this one, exclusive, have room there
	packet ethertype.Seq // number of the packet that was begun last
	part   int           // octets of a packet that a frame carries
	long   int           // and a long frame, 0 if the cable carries none

	queue    [transport.MaxBatch]outFrame
	first, n int
	batch    [transport.MaxBatch]transport.Frame

	breaking bool // the packet that was begun last ends before its time, and the neighbour is to be told
	breakAt  uint32
	length   uint32 // of that packet
	full     bool   // the link had no room
	failed   bool   // or an error
	crowded  bool   // a frame of a packet waits for a place in the queue
}

// queueReserve is how many places of the queue are kept for credits and greetings.
const queueReserve = 4

// outFrame is a frame to be sent. Its body lies in a slot of from, or in the memory of a
// card's outgoing packets.
type outFrame struct {
	h    framing.FabricHeader
	head [ethertype.HeaderSize]byte
	body [1][]byte
	from *inlet // nil for a card's
	slot *slot  // that comes free when the frame is gone; nil for none
}

// reset begins a session. Frames of the one before are not sent.
func (o *outlet) reset() {
	for ; o.n > 0; o.n-- {
		o.drop()
	}
	o.seq, o.limit, o.packet, o.long, o.breaking, o.full, o.failed, o.crowded = 0, 0, 0, 0, false, false, false, false
}

// drop lets go of the oldest frame.
func (o *outlet) drop() {
	f := &o.queue[o.first]
	if f.slot != nil {
		f.from.release(f.slot)
	}
	*f = outFrame{}
	o.first = (o.first + 1) % len(o.queue)
}

// grant takes the credit that a frame of the neighbour tells, and reports whether it is
// more than before. No window is longer than maxSlots.
func (o *outlet) grant(credit ethertype.Seq) bool {
	if !o.limit.Less(credit) || credit.Sub(o.seq) > maxSlots {
		return false
	}
	o.limit = credit
	return true
}

// credit is how many frames of packets can be sent now.
func (o *outlet) credit() int {
	return max(0, min(o.limit.Sub(o.seq), len(o.queue)-queueReserve-o.n))
}

// push queues a frame.
func (o *outlet) push(f outFrame) bool {
	if o.n == len(o.queue) {
		return false
	}
	o.queue[(o.first+o.n)%len(o.queue)] = f
	o.n++
	return true
}

// carries returns how many of the next n octets of a packet a frame carries.
func (o *outlet) carries(n int) int {
	if n > o.part && o.long > 0 {
		return min(n, o.long)
	}
	return min(n, o.part)
}

// begin begins a packet of so many octets.
func (o *outlet) begin(length int) {
	o.packet++
	o.length = uint32(length)
	o.breaking = false // the new packet's first frame says it, too
}

// send queues a part of the packet that was begun last. There is credit.
func (o *outlet) send(offset int, part []byte, from *inlet, s *slot) {
	o.push(outFrame{
		h: framing.FabricHeader{
			Kind: framing.FabricPacket, Seq: o.seq, Packet: o.packet,
			Offset: uint32(offset), Length: o.length, Size: uint16(len(part)),
		},
		body: [1][]byte{part}, from: from, slot: s,
	})
	o.seq++
}

// breakOff has the packet that was begun last end at an offset, as soon as there is credit
// to say so.
func (o *outlet) breakOff(offset int) {
	if offset > 0 {
		o.breaking, o.breakAt = true, uint32(offset)
		o.sayBreak()
	}
}

// sayBreak tells of a broken packet.
func (o *outlet) sayBreak() {
	if o.breaking && o.credit() > 0 {
		o.breaking = false
		o.push(outFrame{h: framing.FabricHeader{
			Kind: framing.FabricBreak, Seq: o.seq, Packet: o.packet, Offset: o.breakAt, Length: o.length,
		}})
		o.seq++
	}
}

// flush offers the link what is queued. Its error is ErrClosed; others are counted as a
// link without room, because it may come back.
func (c *cableEnd) flush() error {
	o := &c.out
	for o.n > 0 {
		n := min(o.n, len(o.queue)-o.first)
		for i := range n {
			f := &o.queue[o.first+i]
			c.address(f)
			o.batch[i] = transport.Frame{Head: f.head[:], Body: f.body[:]}
		}
		taken, err := c.link.Send(o.batch[:n])
		for range taken {
			o.drop()
			o.n--
		}
		c.frames.FramesOut += uint64(taken)
		if taken > 0 && o.crowded {
			o.crowded = false
			c.taker.changed()
		}
		if errors.Is(err, transport.ErrFrameSize) && taken < n { // the MTU has shrunk: the neighbour sees a gap
			o.drop()
			o.n--
			c.frames.Malformed++
			continue
		}
		if taken < n {
			o.full, o.failed = true, err != nil
			c.frames.Full++
			if errors.Is(err, transport.ErrClosed) {
				return err
			}
			return nil
		}
	}
	o.full = false
	return nil
}

// address completes a frame's header as it is right now.
func (c *cableEnd) address(f *outFrame) {
	h := &f.h
	h.Dst, h.DstPort = c.peer.MAC, c.peer.Port
	h.Src, h.SrcPort, h.Type = c.self.MAC, c.self.Port, c.typ
	h.Credit = c.in.credit()
	if h.Kind == framing.FabricHello {
		h.Tag, h.Packet = c.tag, ethertype.Seq(c.peerTag)
		if !c.known {
			h.Dst, h.DstPort = ethertype.Broadcast, ethertype.PortAll
		}
	} else {
		h.Tag = pairTag(c.peerTag, c.tag)
		c.in.told, c.in.tell = h.Credit, false
	}
	h.Put(f.head[:])
}
