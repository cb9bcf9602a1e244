package mplite

import (
	"math/bits"

	"github.com/bobnet-go/bobnet/vipl"
)

// Landing memory. A rendezvous costs a round trip before the data, which is two more wake-ups
// where both ranks block. So a rank that has received some announced messages of a medium size
// from a peer grants it landing memory. The peer then writes such messages there at once, by one
// RDMA write each, the header in front of the payload. They are matched like eager messages, and
// copied to their receives. A message without a matching receive stays in its slots.
//
//	sender                      receiver
//	  | ready, clear, write: twice  |
//	  | <-- land(address, handle)   |
//	  | RDMA write ...............> |  header and payload
//	  | ... immediate = slot ...... |  matches, copies
//	  | <-- slots, with any message |
//
// Landing memory has landSlots slots. A message takes as many adjacent slots as its length
// requires. The receiver returns slots as bits of a header, so a message that stays does not
// hold back later messages. A sender that finds no room announces its message: it never waits
// for slots.
const (
	landSlots = 8           // bits of a header field
	landSlot  = 64<<10 + 64 // bytes: a message of 64 KiB and its header
	landMin   = 16 << 10    // minimum bytes of a message that makes its receiver grant landing memory
	landMax   = landSlots/2*landSlot - headerSize - callSize
	landAfter = 2        // number of such messages before the grant
	landTotal = 16 << 20 // maximum bytes of all landing memory of a rank
	landMark  = 1 << 31  // in the immediate data of a write: it names a slot, not a request
	landHead  = 64       // bytes of the memory of a header: at least headerSize+callSize
)

// landing is a peer's landing memory at this rank, and this rank's at the peer.
type landing struct {
	// This rank's landing memory, which the peer writes to:
	mem    []byte // nil until it is granted
	handle vipl.MemHandle
	seen   int       // announced messages that landing memory could have held
	held   uint8     // slots that hold messages
	owed   uint8     // free slots that the peer does not know of yet
	kept   []inbound // messages without a receive, by their first slot

	// The peer's landing memory, which this rank writes to:
	granted bool   // the peer has granted it
	at      target // handle 0: no landing memory
	most    int    // maximum bytes of a message in landing memory
	free    uint8  // slots
	heads   []byte // headers of the messages in flight, by their first slot
	mine    vipl.MemHandle
	busy    uint8 // first slots of the messages in flight
}

// landRun returns the slots that a message of n bytes, with its header, takes from first on.
func landRun(first, n int) uint8 {
	return uint8(1<<((n+landSlot-1)/landSlot)-1) << first
}

// showsLanding counts an announced message of this size. After enough such messages it grants
// landing memory, if the rank has memory for it.
func (p *peer) showsLanding(size uint64) {
	w, l := p.w, &p.land
	if size < landMin || size > landMax {
		return
	}
	if l.seen++; l.seen != landAfter || w.landings+landSlots*landSlot > landTotal {
		return
	}
	mem, handle, err := w.nic.AllocMem(landSlots*landSlot, &vipl.MemAttributes{Ptag: p.Tag, EnableRDMAWrite: true})
	if err != nil {
		return // messages are announced as before
	}
	w.landings += len(mem)
	l.mem, l.handle, l.kept = mem, handle, make([]inbound, landSlots)
	p.say(control{kind: kindLand, size: landMax, target: target{addr: vipl.VirtualAddress(mem), handle: uint32(handle)}})
}

// mayLand handles the grant of landing memory.
func (p *peer) mayLand(most uint64, body []byte) {
	l := &p.land
	var at target
	if at.parse(body); l.granted || at.handle == 0 {
		p.fail(errGarbled)
		return
	}
	l.granted = true
	heads := make([]byte, landSlots*landHead)
	mine, err := p.register(heads, false)
	if err != nil {
		return // messages are announced as before
	}
	l.at, l.most, l.heads, l.mine, l.free = at, int(most), heads, mine, 1<<landSlots-1
}

// landed handles a write to landing memory, whose immediate data fills rx.
func (p *peer) landed(slot uint32, length int, rx *rxBuf) {
	l := &p.land
	if slot >= landSlots || length == 0 || int(slot)*landSlot+length > len(l.mem) {
		p.fail(errGarbled)
		return
	}
	first := int(slot)
	run := landRun(first, length)
	var h header
	payload, ok := h.parse(l.mem[first*landSlot:][:length:length])
	if !ok || h.kind != kindEager || h.flags&flagSync != 0 || (l.held|l.owed)&run != 0 || !p.returned(&h) {
		p.fail(errGarbled)
		return
	}
	l.held |= run
	p.arrived(&h, payload, rx, run)
	p.followUp(&h)
}

// vacate frees slots whose message has been received.
func (p *peer) vacate(run uint8) {
	p.land.held &^= run
	p.land.owed |= run
}

// landingDue reports whether slots must be returned in a separate message, because without them
// the peer has no room for a message of the maximum length.
func (p *peer) landingDue() bool { return bits.OnesCount8(p.land.owed) > landSlots/2 }

// sendLanding sends r's message to the peer's landing memory. It returns false if there is no room.
// The caller must have a data credit.
func (p *peer) sendLanding(r *request) bool {
	l, s := &p.land, spec{context: r.env.context, flags: r.flags, typ: r.typ, call: r.call}
	if l.free == 0 || len(r.buf) > l.most || s.flags&flagSync != 0 || p.writes == maxWrites {
		return false
	}
	h := header{kind: kindEager, flags: s.flags, context: s.context, tag: r.env.tag, size: uint64(len(r.buf)), recvID: s.typ.sig, call: s.call}
	first, run := 0, uint8(0)
	for {
		run = landRun(first, h.length()+len(r.buf))
		if l.free&run == run && l.busy&(1<<first) == 0 {
			break
		}
		if first++; bits.Len8(run) == landSlots {
			return false
		}
	}
	mem, err := p.register(r.buf, false)
	if err != nil {
		return false
	}
	p.spend(&h)
	p.returns(&h)
	head := l.heads[first*landHead:][:landHead]
	r.segs[0] = vipl.Segment{Data: head[:h.put(head)], Handle: l.mine}
	r.segs[1] = vipl.Segment{Data: r.buf, Handle: mem}
	l.free, l.busy, r.landing = l.free&^run, l.busy|1<<first, 1<<first
	r.mem, r.accepted, r.written, r.state = mem, len(r.buf), len(r.buf), sendWriting
	st := &p.w.stats
	st.LandingSent++
	st.BytesSent += uint64(len(r.buf))
	p.postWrite(r, r.segs[:], target{addr: l.at.addr + uint64(first*landSlot), handle: l.at.handle}, landMark|uint32(first))
	return true
}

// closeLanding frees the memory. The VI must be closed.
func (p *peer) closeLanding() {
	l := &p.land
	if l.mem != nil {
		p.w.landings -= len(l.mem)
		p.w.nic.DeregisterMem(l.handle)
	}
	if l.mine != 0 {
		p.w.nic.DeregisterMem(l.mine)
	}
	*l = landing{}
}

// Close ends the connection and frees all memory.
func (p *peer) Close() {
	if p.VI != nil {
		p.VI.Close()
	}
	p.closeLanding()
	p.Channel.Close()
}
