package mplite

import "math/bits"

// Unexpected messages wait in landing memory, in their receive buffers, and beyond half of these in the spill pool.

// keep stores a message that no receive takes yet. The message stays in its receive
// buffer, which keeps its credit, until such messages hold half of the peer's data
// buffers. From then on messages move to the spill pool while it has room.
//
// A message in slots of landing memory stays there.
func (p *peer) keep(h *header, env envelope, payload []byte, rx *rxBuf, slots uint8) {
	w := p.w
	in := &rx.With
	if slots != 0 {
		in = &p.land.kept[bits.TrailingZeros8(slots)]
		in.data, in.slots = payload, slots
		p.repost(rx)
	} else if p.unexpected >= p.room/2 {
		if moved := w.spill.get(payload); moved != nil {
			in = moved
			p.repost(rx)
		}
	}
	if in == &rx.With {
		if p.full() {
			p.fail(errOverspent)
			return
		}
		p.unexpected++
		in.data = payload
	}
	in.env, in.kind, in.flags, in.sig, in.size, in.sendID, in.from = env, h.kind, h.flags, h.recvID, h.size, h.sendID, p
	in.call = h.call
	w.keepMessage(in)
}

// keepMessage puts a message where receives look for it.
func (w *world) keepMessage(in *inbound) {
	w.match.enqueue(in)
	if in.env.context&1 != 0 {
		w.inspect(in)
	}
	if w.probing > 0 {
		w.notify()
	}
}

// drop frees the memory of a message that has been taken out of the matcher.
func (w *world) drop(in *inbound) {
	p, rx := in.from, in.rx
	switch {
	case in.slots != 0:
		p.vacate(in.slots)
		in.data, in.slots = nil, 0
	case rx == nil:
		w.spill.put(in)
		return
	default:
		in.data = nil
		p.unexpected--
		p.repost(rx)
	}
	p.returnSoon()
}

// spillPool is bounded memory for unexpected messages, recycled by size class: powers of
// two from 64 bytes. Free messages also count against the limit. They are released when
// another class needs the room.
type spillPool struct {
	free  [48][]*inbound // by class
	used  int
	kept  int // used and free
	limit int
}

const spillOverhead = 128 // what the bookkeeping of one message counts as

func spillClass(n int) int { return bits.Len(uint(max(n, 64)-1)) - 6 }

// get returns a message with a copy of payload, or nil when the pool is full.
func (s *spillPool) get(payload []byte) *inbound {
	class := spillClass(len(payload))
	cost := 64<<class + spillOverhead
	if s.used+cost > s.limit {
		return nil
	}
	var in *inbound
	if last := len(s.free[class]) - 1; last >= 0 {
		in, s.free[class] = s.free[class][last], s.free[class][:last]
	} else {
		if s.kept+cost > s.limit {
			clear(s.free[:])
			s.kept = s.used
		}
		s.kept += cost
		in = &inbound{data: make([]byte, 64<<class)}
	}
	s.used += cost
	in.data = in.data[:len(payload)]
	copy(in.data, payload)
	return in
}

// node returns a message without payload. It may exceed the limit, because there is at
// most one such message for each request.
func (s *spillPool) node() *inbound {
	limit := s.limit
	s.limit = 1 << 62
	in := s.get(nil)
	s.limit = limit
	return in
}

// put returns in to the pool.
func (s *spillPool) put(in *inbound) {
	data := in.data[:cap(in.data)]
	class := spillClass(len(data))
	s.used -= 64<<class + spillOverhead
	*in = inbound{data: data}
	s.free[class] = append(s.free[class], in)
}
