package hardware

import (
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/framing"
)

// inlet is the buffer of an input of a live cable: frames in the order of their numbers,
// each in the slot that its number says. Numbers base to base+len(slots) have room, and
// that is the credit that the other end gets; so neither loss nor copies nor disorder take
// room away, and a slot serves one number at a time.
type inlet struct {
	slots []slot
	mem   []byte
	part  int // octets of a slot

	base ethertype.Seq // oldest number whose slot is in use
	next ethertype.Seq // first number that was not passed on
	high ethertype.Seq // behind the highest number that was heard of
	told ethertype.Seq // credit that the neighbour was told last
	tell bool          // tell it again, changed or not

	gapSince int64 // when it was seen that next is missing, 0 if it is not
}

type slotState uint8

const (
	slotEmpty  slotState = iota
	slotFull             // holds a frame
	slotQueued           // passed on, and the link of the output has not taken it yet
	slotDone             // passed on; its number is not the oldest in use
	slotOrphan           // queued when the session ended
)

// slot holds a frame.
type slot struct {
	state  slotState
	kind   framing.FabricKind
	summed bool // the packet's CRC-8 has been computed so far
	packet ethertype.Seq
	offset uint32
	length uint32
	sent   int // octets that were passed on, or are the switch's
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

// credit is the number up to which frames find room, exclusive.
func (in *inlet) credit() ethertype.Seq { return in.base + ethertype.Seq(len(in.slots)) }

// put takes a frame, of which part may be the beginning and the rest with the link, and
// reports at which counter it is dropped if it is. One that the link has lost leaves a gap.
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
	if !long.take(data, part) {
		return nil
	}
	*s = slot{state: slotFull, kind: h.Kind, packet: h.Packet, offset: h.Offset, length: h.Length, data: data}
	return nil
}

// heardOf notes that the frames before a number were sent. Those that had no room are
// looked at when there is some.
func (in *inlet) heardOf(n ethertype.Seq) {
	if in.credit().Less(n) {
		n = in.credit()
	}
	if in.high.Less(n) {
		in.high = n
	}
}

// release ends the use of a slot that was passed on.
func (in *inlet) release(s *slot) {
	if s.state == slotOrphan {
		s.state = slotEmpty
		return
	}
	s.state = slotDone
	in.advance()
}

// advance makes the slots free again that no number before them keeps.
func (in *inlet) advance() {
	for in.base != in.next && in.at(in.base).state == slotDone {
		in.at(in.base).state = slotEmpty
		in.base++
	}
}

// skip takes what is missing at next for lost, and returns how many frames that is.
func (in *inlet) skip() (lost int) {
	in.gapSince = 0
	for in.next != in.high && in.at(in.next).state != slotFull {
		if s := in.at(in.next); s.state == slotOrphan {
			s.state = slotQueued // of this session now: it comes free as others do
		} else {
			s.state = slotDone
		}
		in.next++
		lost++
	}
	in.advance()
	return lost
}

// reset begins a session, and returns how many frames of the one before are lost by that.
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

// buffered is how many slots are in use.
func (in *inlet) buffered() (n int) {
	for i := range in.slots {
		if in.slots[i].state != slotEmpty {
			n++
		}
	}
	return n
}

// holdsEnd reports whether the rest of a packet, from its next frame on, is there.
func (in *inlet) holdsEnd() bool {
	first := in.at(in.next)
	at := first.offset
	for n := in.next; n != in.high; n++ {
		s := in.at(n)
		if s.state != slotFull || s.kind == framing.FabricBreak || s.packet != first.packet || s.offset != at {
			return s.state == slotFull // another packet begins, or a break ends it: no more of it comes
		}
		if at += uint32(len(s.data)); at == first.length {
			return true
		}
	}
	return false
}
