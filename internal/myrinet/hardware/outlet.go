package hardware

import (
	"errors"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/transport"
)

// outlet is the sending half of a live cable's end: frames that the link has not taken yet, and the
// credit that the neighbour has granted.
type outlet struct {
	seq    ethertype.Seq // number of the next frame
	limit  ethertype.Seq // the neighbour has room for frames up to this one, exclusive
	packet ethertype.Seq // number of the last packet begun
	part   int           // bytes of a packet in an ordinary frame
	long   int           // bytes of a packet in a long frame, 0 if the cable carries none

	queue    [transport.MaxBatch]outFrame
	first, n int
	batch    [transport.MaxBatch]transport.Frame

	breaking bool // the last packet begun was broken off at breakAt; the neighbour does not know yet
	breakAt  uint32
	length   uint32 // of that packet
	full     bool   // the link had no room
	failed   bool   // the link returned an error
	crowded  bool   // a frame of a packet waits for room in the queue
}

// queueReserve is the number of places in the queue that are reserved for credits and greetings.
const queueReserve = 4

// outFrame is a frame to send. Its body lies in a slot of from, or in the arena of a card's
// outgoing packets.
type outFrame struct {
	h    framing.FabricHeader
	head [ethertype.HeaderSize]byte
	body [1][]byte
	from *inlet // nil at a card
	slot *slot  // released when the frame has left; may be nil
}

// reset begins a session. Frames of the previous session are dropped.
func (o *outlet) reset() {
	for ; o.n > 0; o.n-- {
		o.drop()
	}
	o.seq, o.limit, o.packet, o.long, o.breaking, o.full, o.failed, o.crowded = 0, 0, 0, 0, false, false, false, false
}

// drop removes the oldest frame and releases its slot.
func (o *outlet) drop() {
	f := &o.queue[o.first]
	if f.slot != nil {
		f.from.release(f.slot)
	}
	*f = outFrame{}
	o.first = (o.first + 1) % len(o.queue)
}

// grant applies the credit in a frame of the neighbour, and reports whether it has grown. It
// ignores a window longer than maxSlots.
func (o *outlet) grant(credit ethertype.Seq) bool {
	if !o.limit.Less(credit) || credit.Sub(o.seq) > maxSlots {
		return false
	}
	o.limit = credit
	return true
}

// credit returns how many frames of packets can be sent now.
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

// carries returns how many of the next n bytes of a packet fit one frame.
func (o *outlet) carries(n int) int {
	if n > o.part && o.long > 0 {
		return min(n, o.long)
	}
	return min(n, o.part)
}

// begin starts a packet of length bytes.
func (o *outlet) begin(length int) {
	o.packet++
	o.length = uint32(length)
	o.breaking = false // the first frame of the new packet also ends the old one
}

// send queues a part of the last packet begun. The caller has checked the credit.
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

// breakOff ends the last packet begun at an offset. The neighbour learns of it as soon as there is
// credit.
func (o *outlet) breakOff(offset int) {
	if offset > 0 {
		o.breaking, o.breakAt = true, uint32(offset)
		o.sayBreak()
	}
}

// sayBreak sends the notice of a broken packet if there is credit.
func (o *outlet) sayBreak() {
	if o.breaking && o.credit() > 0 {
		o.breaking = false
		o.push(outFrame{h: framing.FabricHeader{
			Kind: framing.FabricBreak, Seq: o.seq, Packet: o.packet, Offset: o.breakAt, Length: o.length,
		}})
		o.seq++
	}
}

// flush offers the queue to the link. It returns only ErrClosed; other errors may pass, and count
// as a link without room.
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
		if errors.Is(err, transport.ErrFrameSize) && taken < n { // the MTU has shrunk; the neighbour sees a gap
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

// address fills in the header fields of a frame that depend on the current state.
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
