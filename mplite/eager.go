package mplite

import (
	"math/bits"
)

// spec is what a call adds to buffer, rank and tag.
type spec struct {
	context uint32
	flags   uint8 // flagBig, flagSync
	typ     *element
	call    uint64 // of a collective: see callSig
}

// sendEager sends buf at once; clearToSend has said yes.
func (p *peer) sendEager(buf []byte, tag int, s spec, id uint32) {
	h := header{
		kind: kindEager, flags: s.flags, context: s.context,
		tag: int32(tag), size: uint64(len(buf)), sendID: id, recvID: s.typ.sig, call: s.call,
	}
	p.spend(&h)
	st := &p.w.stats
	st.EagerSent++
	st.BytesSent += uint64(len(buf))
	p.post(&h, buf)
}

// spend takes a data credit for h and says so if it was the last.
func (p *peer) spend(h *header) {
	if p.credits--; p.credits == 0 {
		h.flags |= flagHungry
	}
}

// start begins a send that could not go at once, or whose end has to be told.
func (w *world) start(c *Comm, p *peer, buf []byte, tag int, s spec) *request {
	// Before the request exists: what is heard now may end all requests there are.
	if p != nil && p.queue.head == nil && (p.credits == 0 || !p.Room()) {
		w.reap()
	}
	r := w.request(c, buf, s)
	r.env = envelope{context: s.context, src: int32(w.rank), tag: int32(tag)}
	r.peer = p
	r.state = sendQueued
	if w.fatal != nil {
		w.complete(r, w.fatal)
		return r
	}
	if p == nil {
		w.sendSelf(r)
		return r
	}
	switch {
	case p.state >= peerDead:
		w.complete(r, p.err)
	case r.coll && c.casualty() != nil:
		w.complete(r, c.casualty())
	case r.coll && c.log.overruled(int32(tag)) != nil:
		w.complete(r, c.log.overruled(int32(tag)))
	case p.queue.head != nil || p.credits == 0 || !p.Room() || p.state != peerLive:
		w.stats.CreditStalls++
		p.queue.push(&r.place, r)
	default:
		p.launch(r)
	}
	return r
}

// launch sends what there is to send of r; a credit and a bounce buffer are
// there. Up to the receiver's eager size that is the message, else its
// announcement.
func (p *peer) launch(r *request) {
	w := p.w
	s := spec{context: r.env.context, flags: r.flags, typ: r.typ, call: r.call}
	if len(r.buf) > p.eagerMax {
		p.announce(r)
		return
	}
	if r.flags&flagSync != 0 {
		r.state = sendSync
		p.sendEager(r.buf, int(r.env.tag), s, r.id)
		return
	}
	w.complete(r, nil) // the bounce buffer has it
	p.sendEager(r.buf, int(r.env.tag), s, 0)
}

// arrived takes in an eager message or an announcement.
func (p *peer) arrived(h *header, payload []byte, rx *rxBuf) {
	w := p.w
	env := envelope{context: h.context, src: int32(p.rank), tag: h.tag}
	r := w.match.arrive(&env)
	if r == nil {
		p.keep(h, env, payload, rx)
		return
	}
	switch {
	case r.coll && w.conflict(r, p, h):
	case h.kind == kindReady:
		p.accept(r, h.tag, h.size, h.sendID, h.flags, h.recvID)
	default:
		w.deliver(r, h.tag, int32(p.rank), payload, h.flags, h.recvID)
		if h.flags&flagSync != 0 {
			p.say(control{kind: kindDone, sendID: h.sendID})
		}
	}
	w.repostEmptied()
	w.emptied = rx
	rx.With.from = p
}

// repostEmptied posts the receive buffer that was emptied last. That waits until
// the next one, or until somebody polls or waits: whoever has just received
// wants to answer first.
func (w *world) repostEmptied() {
	rx := w.emptied
	if rx == nil {
		return
	}
	w.emptied = nil
	p := rx.With.from
	p.repost(rx)
	if p.owed >= p.due || p.hungry {
		p.pump()
	}
}

// deliver ends a receive with an eager payload.
func (w *world) deliver(r *request, tag, src int32, payload []byte, flags uint8, sig uint32) {
	n := r.setStatus(tag, src, uint64(len(payload)), sig)
	copy(r.buf[:n], payload)
	w.putRight(r.buf[:n], r.typ, flags, sig)
	w.stats.BytesReceived += uint64(n)
	w.stats.EagerReceived++
	w.complete(r, nil)
}

// setStatus fills in the status of a receive of a message of size bytes, and the
// errors that the message itself is the cause of. It returns how many bytes of
// the message the receive takes.
func (r *request) setStatus(tag, src int32, size uint64, sig uint32) int {
	n := int(min(size, uint64(len(r.buf))))
	r.status = Status{Source: int(r.c.index[src]), Tag: int(tag), Count: n}
	switch {
	case !r.typ.matches(sig) && size > 0:
		n, r.status.Count = 0, 0
		r.err = opError("receive", ErrType, "rank %d sent %s with tag %d, the receive wants %s",
			r.status.Source, sigName(sig), tag, sigName(r.typ.sig))
	case uint64(n) < size:
		r.err = &TruncateError{Source: r.status.Source, Tag: int(tag), Size: int(size), Room: n}
	}
	return n
}

// keep stores a message that no receive takes yet. It stays in its receive
// buffer, and its credit with it, until half of the peer's data buffers are
// taken so; from then on messages move out to the spill pool as long as that
// has room.
func (p *peer) keep(h *header, env envelope, payload []byte, rx *rxBuf) {
	w := p.w
	in := &rx.With
	if p.unexpected >= w.cfg.Credits/2 {
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

// take gives an unexpected message to the receive r that it has been matched with.
func (w *world) take(r *request, in *inbound) {
	p := in.from
	switch {
	case in.self != nil:
		w.takeSelf(r, in)
		return
	case r.coll && w.conflict(r, p, &header{kind: in.kind, tag: in.env.tag, recvID: in.sig, call: in.call, sendID: in.sendID}):
	case in.kind == kindReady:
		p.accept(r, in.env.tag, in.size, in.sendID, in.flags, in.sig)
	default:
		w.deliver(r, in.env.tag, in.env.src, in.data, in.flags, in.sig)
		if p != nil && in.flags&flagSync != 0 {
			p.say(control{kind: kindDone, sendID: in.sendID})
		}
	}
	w.drop(in)
}

// drop frees the memory of a message that has been taken out of the matcher.
func (w *world) drop(in *inbound) {
	if in.rx == nil {
		w.spill.put(in)
		return
	}
	p, rx := in.from, in.rx
	in.data = nil
	p.unexpected--
	p.repost(rx)
	if p.owed >= p.due || p.hungry {
		p.pump()
	}
}

// spillPool is bounded memory for unexpected messages, recycled by size class:
// powers of two from 64 bytes. What is free counts against the limit too, and is
// given up when another class needs the room.
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

// node returns a message without payload, beyond the limit if need be: there
// is at most one for each request.
func (s *spillPool) node() *inbound {
	limit := s.limit
	s.limit = 1 << 62
	in := s.get(nil)
	s.limit = limit
	return in
}

// put gives in back.
func (s *spillPool) put(in *inbound) {
	data := in.data[:cap(in.data)]
	class := spillClass(len(data))
	s.used -= 64<<class + spillOverhead
	*in = inbound{data: data}
	s.free[class] = append(s.free[class], in)
}
