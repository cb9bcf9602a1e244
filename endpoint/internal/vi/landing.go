package vi

import (
	"github.com/bobnet-go/bobnet/endpoint/internal/wire"
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/vipl"
)

// Landing memory: bulk data without a rendezvous.
//
// An announcement and its answer cost a round trip before the data, which means two more wake-ups
// if both programs block. So a side to which the other has announced some bulk messages of medium
// length gives that side landing memory. From then on, the sender writes the header and the data of
// such a message there at once, by one RDMA write with immediate data. The half copies the data to
// the segment before the handler runs.
//
// A channel of few slots has a place for each slot. A place is free when its slot may be used for
// the next message in the same direction, because the half has then handled the last one
// (endpoint/slot.go). A channel of more slots has landFew places. The sender gives a slot a place
// for each message and takes the place back when the peer sends the next message of that slot. A
// message without a place is announced.
const (
	landMost  = 256 << 10 // limit of the data of a message, in bytes
	landBytes = 1 << 20   // limit of the landing memory of one side of a channel, in bytes
	landFew   = landBytes / landMost
	landAfter = 2       // announced messages before the side allocates it
	landMark  = 1 << 31 // in the immediate data of a write: it goes to landing memory
	landNote  = wire.BaseSize + wire.WindowSize
)

// landPlaces returns how many places a channel has, and how many bytes each has for the header and
// the data of a message. A channel has none if they would hold hardly more than a medium message.
func landPlaces(s wire.Shape) (places, size int) {
	places, data := s.Slots, min(landMost, landBytes/s.Slots&^63)
	if data < landMost/2 {
		places, data = landFew, landMost
	}
	if data < 2*s.Medium {
		return 0, 0
	}
	return places, landHead + data
}

// landHead is the room for a header with its arguments.
const landHead = (wire.SmallSize + 63) &^ 63

// landing is the state that one end of a channel keeps for messages that land.
type landing struct {
	places int        // 0: the channel has none
	place  int        // bytes of each
	note   sendBuffer // sends the address of the memory to the peer
	seen   int        // announced messages that would have landed
	taken  int        // bytes of the budget

	// Memory of this end, to which the peer writes:
	in     []receiveBuffer // by place
	handle vipl.MemHandle
	// Memory of the peer, to which this end writes:
	to    wire.Window // of place 0; handle 0: the peer has none
	heads []byte      // by slot
	slab  vipl.MemHandle
	used  [landFew]int // with fewer places than slots: 1 + the slot that uses the place; 0: free
	held  int          // places in use
}

// placeOf returns the place for the next message of a slot, or -1 if none is free.
func (l *landing) placeOf(slot, slots int) int {
	if l.places == slots {
		return slot
	}
	free := -1
	for k, s := range l.used {
		if s == slot+1 { // its last message has been handled: otherwise the slot would not be used again
			return k
		}
		if s == 0 && free < 0 {
			free = k
		}
	}
	if free >= 0 {
		l.used[free] = slot + 1
		l.held++
	}
	return free
}

// handled frees the place of a slot: the peer has sent its next message.
func (l *landing) handled(slot int) {
	if l.held == 0 {
		return
	}
	for k, s := range l.used {
		if s == slot+1 {
			l.used[k] = 0
			l.held--
		}
	}
}

// announced counts a message that would have landed. After landAfter messages it allocates landing
// memory for the peer, if the budget allows.
func (ch *channel) announced(length uint32) {
	l := &ch.landing
	if l.places == 0 || int64(length) > int64(l.place-landHead) {
		return
	}
	if l.seen++; l.seen != landAfter {
		return
	}
	size := l.places * l.place
	if ch.side == wire.Serving {
		if m := ch.way.memory; m.Taken+size > m.Most/2 || !m.Take(ch.station, size) { // the rest is for buffers
			return
		}
		l.taken = size
	}
	mem := make([]byte, size)
	handle, err := ch.way.NIC.RegisterMem(mem, &vipl.MemAttributes{Ptag: ch.ptag, EnableRDMAWrite: true})
	if err != nil {
		return // the channel works without landing memory
	}
	l.handle, l.in = handle, make([]receiveBuffer, l.places)
	for i := range l.in {
		l.in[i] = receiveBuffer{mem: mem[i*l.place:][:l.place:l.place], lands: true}
	}
	at := (&wire.Header{Kind: wire.KindLanding}).Put(l.note.mem)
	wire.Window{Addr: vipl.VirtualAddress(mem), Handle: uint32(handle)}.Put(l.note.mem[at:])
	l.note.n, l.note.busy = landNote, true
	ch.launch(&l.note)
}

// mayLand handles the message with the address of the peer's landing memory.
func (ch *channel) mayLand(at []byte) {
	l := &ch.landing
	var to wire.Window
	if l.places == 0 || l.to.Handle != 0 || !to.Parse(at) || to.Handle == 0 {
		ch.way.up.Stray()
		return
	}
	heads := make([]byte, len(ch.windows)*landHead)
	slab, err := ch.way.NIC.RegisterMem(heads, &vipl.MemAttributes{Ptag: ch.ptag})
	if err != nil {
		return // the channel works without landing memory
	}
	l.to, l.heads, l.slab = to, heads, slab
}

// Land is provider's.
func (ch *channel) Land(i, slot, n int, data []byte, await bool) bool {
	l, x := &ch.landing, &ch.writes[slot]
	if l.to.Handle == 0 || len(data) > l.place-landHead || n > landHead || x.busy || ch.broken || ch.closed {
		return false
	}
	place := l.placeOf(slot, len(ch.windows))
	if place < 0 {
		return false
	}
	handle, err := ch.way.NIC.RegisterMem(data, &vipl.MemAttributes{Ptag: ch.ptag})
	if err != nil {
		l.handled(slot)
		return false
	}
	head := l.heads[slot*landHead:][:n]
	copy(head, ch.sends[i].mem)
	head[0] = byte(wire.Kind(head[0]).Landing())
	x.segs[0] = vipl.Segment{Data: head, Handle: l.slab}
	x.segs[1] = vipl.Segment{Data: data, Handle: handle}
	x.desc.Segs, x.data = x.segs[:2], handle
	ch.write(x, wire.Window{Addr: l.to.Addr + uint64(place*l.place), Handle: l.to.Handle}, landMark|uint32(place), await)
	return true
}

// tookLanding passes on the message that the peer has written to a place.
func (ch *channel) tookLanding(place uint32, length int) {
	l := &ch.landing
	if int64(place) >= int64(len(l.in)) || length > l.place || l.in[place].refs > 0 {
		ch.way.up.Stray()
		return
	}
	x, p := &l.in[place], ch.way.packet()
	body, ok := p.Head.Parse(x.mem[:length:length], nil)
	want := wire.KindBulk
	if ch.side == wire.Asking {
		want = wire.KindReplyBulk
	}
	slot := int(p.Head.Slot)
	if !ok || p.Head.Kind != want || slot >= len(ch.windows) || len(l.in) == len(ch.windows) && slot != int(place) {
		ch.way.spare.Push(p)
		ch.way.up.Stray()
		return
	}
	x.refs = 1
	p.Body, p.Home, p.Landed = body, x, true
	ch.landing.handled(slot)
	if ch.batching.enabled() {
		ch.heard(slot)
	}
	ch.up.Received(p)
}

// close frees the memory. Nothing may be posted afterwards.
func (l *landing) close(w *Provider, station ethertype.MAC) {
	w.memory.Give(station, l.taken)
	for _, h := range [...]vipl.MemHandle{l.handle, l.slab} {
		if h != 0 {
			w.NIC.DeregisterMem(h)
		}
	}
}
