package vi

import (
	"github.com/bobnet-go/bobnet/endpoint/internal/wire"
	"github.com/bobnet-go/bobnet/vipl"
)

// Landing memory: bulk data without a rendezvous.
//
// An announcement and its answer cost a round trip before the data, which is two more wake-ups where
// both programs block. So a side that has been told of some bulk messages of a medium length gives the
// other one landing memory, a place for each slot. From then on header and data of such a message
// go there at once, by one RDMA write with immediate data. The half copies the data to the segment
// before the handler runs.
//
// A place is free when its slot may be used for the next message in the same direction, because
// the half has then handled the last one (endpoint/slot.go). So nobody counts places.
const (
	landMost  = 128 << 10 // bytes of the data of a message, at the most
	landBytes = 512 << 10 // of the landing memory of a side of a channel, at the most
	landAfter = 2         // announced messages before there is some
	landMark  = 1 << 31   // in the immediate data of a write: it is to landing memory
	landNote  = wire.BaseSize + wire.WindowSize
)

// landPlace returns how many bytes a place has for the header and the data of a message: 0 if that is
// too little to gain by.
func landPlace(s wire.Shape) int {
	data := min(landMost, landBytes/s.Slots&^63)
	if data < 2*s.Medium {
		return 0
	}
	return landHead + data
}

// landHead is the room for a header with its arguments.
const landHead = (wire.SmallSize + 63) &^ 63

// landing is what one end of a channel has for messages that land.
type landing struct {
	place int        // bytes; 0: the channel has none
	note  sendBuffer // tells the peer of the memory
	seen  int        // announced messages that would have landed
	taken int        // bytes of the budget

	// Here, where the peer writes to:
	in     []receiveBuffer // by slot
	handle vipl.MemHandle
	// There, where this end writes to:
	to    wire.Window // of slot 0; handle 0: there is none
	heads []byte      // by slot
	slab  vipl.MemHandle
}

// announced counts a message that would have landed, and gives the peer landing memory when it is time,
// if there is memory for it.
func (ch *channel) announced(length uint32) {
	l := &ch.landing
	if l.place == 0 || int64(length) > int64(l.place-landHead) {
		return
	}
	if l.seen++; l.seen != landAfter {
		return
	}
	size := len(ch.windows) * l.place
	if ch.side == wire.Serving {
		if m := ch.way.memory; m.Taken+size > m.Most/2 || !m.Take(size) { // the rest is for buffers
			return
		}
		l.taken = size
	}
	mem := make([]byte, size)
	handle, err := ch.way.NIC.RegisterMem(mem, &vipl.MemAttributes{Ptag: ch.ptag, EnableRDMAWrite: true})
	if err != nil {
		return // it goes without
	}
	l.handle, l.in = handle, make([]receiveBuffer, len(ch.windows))
	for i := range l.in {
		l.in[i] = receiveBuffer{mem: mem[i*l.place:][:l.place:l.place], lands: true}
	}
	at := (&wire.Header{Kind: wire.KindLanding}).Put(l.note.mem)
	wire.Window{Addr: vipl.VirtualAddress(mem), Handle: uint32(handle)}.Put(l.note.mem[at:])
	l.note.n, l.note.busy = landNote, true
	ch.launch(&l.note)
}

// mayLand hears where the peer's landing memory is.
func (ch *channel) mayLand(at []byte) {
	l := &ch.landing
	var to wire.Window
	if l.place == 0 || l.to.Handle != 0 || !to.Parse(at) || to.Handle == 0 {
		ch.way.up.Stray()
		return
	}
	heads := make([]byte, len(ch.windows)*landHead)
	slab, err := ch.way.NIC.RegisterMem(heads, &vipl.MemAttributes{Ptag: ch.ptag})
	if err != nil {
		return // it goes without
	}
	l.to, l.heads, l.slab = to, heads, slab
}

// Land is provider's.
func (ch *channel) Land(i, slot, n int, data []byte) bool {
	l, x := &ch.landing, &ch.writes[slot]
	if l.to.Handle == 0 || len(data) > l.place-landHead || n > landHead || x.busy || ch.broken || ch.closed {
		return false
	}
	handle, err := ch.way.NIC.RegisterMem(data, &vipl.MemAttributes{Ptag: ch.ptag})
	if err != nil {
		return false
	}
	head := l.heads[slot*landHead:][:n]
	copy(head, ch.sends[i].mem)
	head[0] = byte(wire.Kind(head[0]).Landing())
	x.segs[0] = vipl.Segment{Data: head, Handle: l.slab}
	x.segs[1] = vipl.Segment{Data: data, Handle: handle}
	x.desc.Segs, x.data = x.segs[:2], handle
	ch.write(x, wire.Window{Addr: l.to.Addr + uint64(slot*l.place), Handle: l.to.Handle}, landMark|uint32(slot))
	return true
}

// tookLanding takes the message of a slot that the peer says to have written.
func (ch *channel) tookLanding(slot uint32, length int) {
	l := &ch.landing
	if int64(slot) >= int64(len(l.in)) || length > l.place || l.in[slot].refs > 0 {
		ch.way.up.Stray()
		return
	}
	x, p := &l.in[slot], ch.way.packet()
	body, ok := p.Head.Parse(x.mem[:length:length], nil)
	want := wire.KindBulk
	if ch.side == wire.Asking {
		want = wire.KindReplyBulk
	}
	if !ok || p.Head.Kind != want || uint32(p.Head.Slot) != slot {
		ch.way.spare.Push(p)
		ch.way.up.Stray()
		return
	}
	x.refs = 1
	p.Body, p.Home, p.Landed = body, x, true
	if ch.batching.open() {
		ch.heard(int(slot))
	}
	ch.up.Received(p)
}

// close gives the memory back. Nothing is posted any more.
func (l *landing) close(w *Provider) {
	w.memory.Give(l.taken)
	for _, h := range [...]vipl.MemHandle{l.handle, l.slab} {
		if h != 0 {
			w.NIC.DeregisterMem(h)
		}
	}
}
