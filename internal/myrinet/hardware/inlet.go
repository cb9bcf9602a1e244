package hardware

import (
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/framing"
)

// inlet is the input buffer of a live cable. It holds frames in the order of their numbers; a
// frame's number determines its slot. Numbers base to base+len(slots) have room, which is the
// credit of the other end. So loss, duplicates and reordering do not reduce the room, and a slot
// serves one number at a time.
type inlet struct {
	slots []slot
	mem   []byte
	part  int // bytes in a slot

	base ethertype.Seq // oldest number whose slot is in use
	next ethertype.Seq // first number that was not yet forwarded
	high ethertype.Seq // one past the highest number that is known to be sent
	told ethertype.Seq // credit in the last frame to the neighbour
	tell bool          // send the credit again, even if unchanged

	gapSince int64 // when next was first seen to be missing, 0 if it is not
}

type slotState uint8

const (
	slotEmpty  slotState = iota
	slotFull             // holds a frame
	slotQueued           // forwarded, but not yet taken by the link of the output
	slotDone             // forwarded, but an older number is still in use
	slotOrphan           // was queued when the session ended
)

// slot holds one frame.
type slot struct {
	state  slotState
	kind   framing.FabricKind
	summed bool // the bytes are part of the packet's running CRC-8
	packet ethertype.Seq
	offset uint32
	length uint32
	sent   int // forwarded bytes, including the turn that the switch strips
	data   []byte
}

func newInlet(part int) inlet {
	n := slotsFor(part)
	in := inlet{slots: make([]slot, n), mem: make([]byte, n*part), part: part}
	for i := range in.slots {
		in.slots[i].data = in.mem[i*part : i*part : (i+1)*part]
	}
	return in
}

func (in *inlet) at(n ethertype.Seq) *slot { return &in.slots[int(n)&(len(in.slots)-1)] }

// credit is the number up to which frames have room, exclusive.
func (in *inlet) credit() ethertype.Seq { return in.base + ethertype.Seq(len(in.slots)) }

// put stores a frame. If it drops the frame, it returns the counter of the reason. part may be only
// the beginning of the frame's part; the link has the rest. If the link has lost the rest, the slot
// stays empty.
func (in *inlet) put(h *framing.FabricHeader, part []byte, long *longCable, st *CableStats) (drop *uint64) {
	s := in.at(h.Seq)
	switch {
	case h.Seq.Less(in.next):
		return &st.Twice
	case !h.Seq.Less(in.credit()) || s.state == slotOrphan:
		return &st.NoRoom
	case s.state != slotEmpty:
		return &st.Twice
	case int(h.Size) > in.part:
		return &st.Malformed
	}
	in.heardOf(h.Seq + 1)
	data := s.data[:h.Size]
	if !long.assemble(data, part) {
		return nil
	}
	*s = slot{state: slotFull, kind: h.Kind, packet: h.Packet, offset: h.Offset, length: h.Length, data: data}
	return nil
}

// heardOf records that the frames before number n were sent. Numbers beyond the credit are left for
// later.
func (in *inlet) heardOf(n ethertype.Seq) {
	if in.credit().Less(n) {
		n = in.credit()
	}
	if in.high.Less(n) {
		in.high = n
	}
}

// release frees a slot that was forwarded.
func (in *inlet) release(s *slot) {
	if s.state == slotOrphan {
		s.state = slotEmpty
		return
	}
	s.state = slotDone
	in.advance()
}

// advance frees forwarded slots from base on, up to the first that is still in use.
func (in *inlet) advance() {
	for in.base != in.next && in.at(in.base).state == slotDone {
		in.at(in.base).state = slotEmpty
		in.base++
	}
}

// skip gives up the missing frames at next, and returns how many.
func (in *inlet) skip() (lost int) {
	in.gapSince = 0
	for in.next != in.high && in.at(in.next).state != slotFull {
		if s := in.at(in.next); s.state == slotOrphan {
			s.state = slotQueued // belongs to this session now, and becomes free like the others
		} else {
			s.state = slotDone
		}
		in.next++
		lost++
	}
	in.advance()
	return lost
}

// reset begins a session, and returns how many frames of the previous one are lost.
func (in *inlet) reset() (lost int) {
	lost = in.high.Sub(in.next)
	for i := range in.slots {
		switch s := &in.slots[i]; s.state {
		case slotQueued, slotOrphan:
			s.state = slotOrphan
		default:
			s.state = slotEmpty
		}
	}
	in.base, in.next, in.high, in.told, in.tell, in.gapSince = 0, 0, 0, 0, false, 0
	return lost
}

// buffered returns the number of slots in use.
func (in *inlet) buffered() (n int) {
	for i := range in.slots {
		if in.slots[i].state != slotEmpty {
			n++
		}
	}
	return n
}

// holdsEnd reports whether the buffer contains the rest of the first packet, from its next frame
// on.
func (in *inlet) holdsEnd() bool {
	first := in.at(in.next)
	at := first.offset
	for n := in.next; n != in.high; n++ {
		s := in.at(n)
		if s.state != slotFull || s.kind == framing.FabricBreak || s.packet != first.packet || s.offset != at {
			return s.state == slotFull // another packet or a break follows: the packet has no further frames
		}
		if at += uint32(len(s.data)); at == first.length {
			return true
		}
	}
	return false
}
