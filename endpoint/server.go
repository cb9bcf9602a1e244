package endpoint

import (
	"encoding/binary"
	"errors"
)

// server is the half of a connection that gets requests and answers them.
type server struct {
	ep    *Endpoint
	from  Name // as the client says; its address is not proven
	ch    channel
	shape shape
	slots []serverSlot
	queue packets // requests, and replies that came back
	// together is how many answers may be coalesced: a share of what the client
	// has under way, so that it does not run out of credits meanwhile, and one if
	// it waits for the only one.
	together int
	turn
	use     uint32 // of the token, counts handlers
	replied bool   // the current one has
}

// replyShare is the share of a client's requests whose answers go together: one
// in so many.
const replyShare = 2

// serverState says how far a request is, at the server.
type serverState uint8

const (
	serverIdle      serverState = iota
	serverQueued                // waits for its handler, or for what that replies
	serverGranted               // for its bulk data
	serverPlaced                // its bulk data has come, and waits for its handler
	serverAnnounced             // its bulk reply waits for a window
)

// serverSlot is what the server knows of one of the client's slots.
type serverSlot struct {
	state    serverState
	posts    uint8  // messages sent; the send buffers of the slot are used in turn
	answer   Op     // what the last one was, 0 if no reply
	n        int    // its length
	use      uint32 // the client's
	head     header // of the request
	args     [MaxShort]uint32
	source   []byte // of the bulk reply, unless it is a get's
	reads    int    // gets that refer to the segment
	fetching bool   // the write that is under way is one of these
	bounce   []byte // memory for the next one
	placed   packet
}

// last returns the number of the slot's send buffer that was used last.
func (s *server) last(i int) int { return i + s.shape.slots*int(s.slots[i].posts&1) }

// next returns the one to build the next message in, or nil if the client has
// asked for another answer before it can have received the last.
func (s *server) next(i int) []byte {
	at := i + s.shape.slots*int((s.slots[i].posts+1)&1)
	if !s.ch.idle(at) {
		return nil
	}
	return s.ch.buffer(at)
}

// post sends the first n bytes of what next has returned.
func (s *server) post(i, n int, answer Op) {
	slot := &s.slots[i]
	slot.posts++
	slot.answer, slot.n = answer, n
	s.ch.post(s.last(i), n, s.together)
}

// received takes in a message.
func (s *server) received(p *packet) {
	if s.closed || s.reason != 0 {
		return
	}
	h := &p.head
	if int(h.slot) >= len(s.slots) {
		s.stray(p)
		return
	}
	slot := &s.slots[h.slot]
	switch {
	case h.kind.request() && slot.state == serverIdle:
		slot.state, slot.use = serverQueued, h.use
		s.together = int(h.underway) / replyShare
		s.queue.push(p)
		s.ready()
	case h.kind == kindRefuse && h.use == slot.use && (slot.state == serverIdle || slot.state == serverAnnounced) && slot.answer != 0:
		if slot.state == serverAnnounced && slot.head.kind == kindGet {
			s.letGo(slot)
		}
		slot.state = serverQueued
		s.queue.push(p)
		s.ready()
	case h.kind == kindClear && h.use == slot.use && slot.state == serverAnnounced:
		var w window
		if !w.parse(h.payload(p.body)) {
			s.stray(p)
			return
		}
		s.ch.release(p)
		s.cleared(int(h.slot), w)
	default:
		s.stray(p)
	}
}

// handleNow is half's. It does what received, serve and handle do of a request that is
// in order, short or with a payload, when nothing else waits to be handled and the
// answer need not be corked.
func (s *server) handleNow(p *packet, b *Bundle) bool {
	h := &p.head
	i := int(h.slot)
	if !s.idle(s.ep.bundle, b) || s.queue.head != nil || h.kind != kindShort && h.kind != kindMedium || i >= len(s.slots) {
		return false
	}
	slot, payload, together := &s.slots[i], h.payload(p.body), int(h.underway)/replyShare
	if slot.state != serverIdle || together > 1 || s.ep.acceptRequest(h, payload, s.shape.medium) != 0 {
		return false
	}
	slot.state, slot.use, s.together = serverQueued, h.use, together
	slot.head.copy(h)
	slot.answer, slot.source = 0, nil
	s.running = true
	defer s.rest()
	s.begin(i, p)
	s.run(h.arguments(p.body, &s.args), payload)
	return true
}

func (s *server) stray(p *packet) {
	s.ep.node.stats.Strays++
	s.ch.release(p)
}

// ready puts s among those that have something to handle.
func (s *server) ready() {
	if !s.queued && !s.running && !s.closed {
		s.queued = true
		s.ep.bundle.requests.Push(s)
	}
	s.ep.bundle.event()
}

// placed hears that the data of a bulk request is there.
func (s *server) placed(i int) {
	if slot := &s.slots[i]; slot.state == serverGranted {
		slot.state = serverPlaced
		slot.placed = packet{slot: i}
		s.queue.push(&slot.placed)
		s.ready()
	}
}

func (s *server) sent() {}

// broken hears that the connection is gone. Requests that have not been handled
// go with it: their sender gets them back. Replies come back here, unless the
// client has left of its own will.
func (s *server) broken(reason Reason, err error) {
	if s.closed || s.reason != 0 {
		return
	}
	s.reason, s.lost = reason, err
	s.ep.node.stats.Broken++
	s.queue = packets{}
	if reason == ReasonBadEndpoint {
		s.destroy()
		return
	}
	s.ready()
}

// destroy closes the connection and forgets s, once no handler looks at its
// memory.
func (s *server) destroy() {
	s.closed = true
	if s.running {
		return
	}
	for i := range s.slots {
		if state := s.slots[i].state; state == serverGranted || state == serverPlaced {
			s.ep.grants--
		}
		s.ep.grants -= s.slots[i].reads
	}
	s.queue = packets{}
	delete(s.ep.servers, s)
	s.ep.node.taken -= s.shape.memory(serving)
	s.ch.close()
}

// serve handles requests for bundle b, up to limit while nobody else has something
// to handle, or returns one reply of a broken connection. It returns how many.
func (s *server) serve(b *Bundle, limit int) (served int) {
	if s.closed {
		return 0
	}
	s.running = true
	defer s.rest()
	for more := true; more && s.serveOne(); more = served < limit && s.queue.head != nil && !b.pending() && s.ep.bundle == b {
		served++
		if s.handled {
			s.over()
		}
	}
	return served
}

// serveOne reports false when there was nothing.
func (s *server) serveOne() bool {
	switch p := s.queue.pop(); {
	case s.closed:
		return false
	case p == nil:
		return s.reason != 0 && s.giveBack()
	case p.body == nil:
		s.bulkPlaced(p.slot)
	default:
		s.handle(p)
	}
	return true
}

// rest is as client's.
func (s *server) rest() {
	if s.handled {
		s.over()
	}
	s.running = false
	switch {
	case s.closed:
		s.destroy()
	case s.queue.head != nil || s.reason != 0:
		s.ready()
	}
}

// over follows a handler: it ends the request, unless there was a reply that
// does.
func (s *server) over() {
	p := s.inUse
	s.ended(s.ep)
	s.use++
	if !s.replied {
		s.finish(s.current)
	}
	if p != nil && !s.closed {
		s.ch.release(p)
	}
}

// giveBack returns the next reply of which it is not known that it arrived.
func (s *server) giveBack() bool {
	for i := range s.slots {
		slot := &s.slots[i]
		if slot.answer == 0 || slot.state == serverIdle && s.ch.idle(s.last(i)) && !s.ch.writing(i) {
			continue
		}
		s.comeBack(i, ReasonUnreachable, s.lost)
		return true
	}
	s.destroy()
	return false
}

// comeBack returns the last reply of a slot to the endpoint.
func (s *server) comeBack(i int, reason Reason, err error) {
	slot := &s.slots[i]
	b := s.ch.buffer(s.last(i))[:slot.n]
	var h header
	body, _ := h.parse(b, nil)
	r := Returned{Endpoint: s.ep, Reason: reason, Op: slot.answer, Dest: -1, To: s.from, Handler: h.handler,
		Args: h.arguments(body, &s.args), Data: h.payload(body), Offset: h.offset, Length: int(h.length), Err: err}
	if slot.source != nil {
		r.Data = slot.source
	}
	slot.answer, slot.source = 0, nil
	if h.handler == 0 || slot.head.kind == kindGet {
		// Of Serve, and whoever called its handler otherwise than by Call is to
		// blame; or data that the endpoint has not sent, but the client fetched.
		return
	}
	s.ep.giveBack(&r)
}

// handle handles a request, or a reply that was refused.
func (s *server) handle(p *packet) {
	h, payload := &p.head, p.head.payload(p.body)
	i := int(h.slot)
	slot := &s.slots[i]
	if h.kind == kindRefuse {
		s.ch.release(p)
		s.ep.node.stats.Returns++
		s.begin(i, nil)
		s.replied = false
		s.comeBack(i, ReasonReplyRejected, errors.New(h.reason.String()))
		return
	}
	slot.head.copy(h)
	slot.answer, slot.source = 0, nil
	if reason := s.ep.acceptRequest(h, payload, s.shape.medium); reason != 0 {
		s.turnBack(i, reason)
		s.ch.release(p)
		return
	}
	switch h.kind {
	case kindAnnounce:
		h.arguments(p.body, &slot.args)
		s.ch.release(p)
		s.grant(i)
		return
	case kindGet:
		h.arguments(p.body, &slot.args)
		to := binary.LittleEndian.Uint64(payload)
		s.ch.release(p)
		s.get(i, to)
		return
	case kindBulk:
		data := s.ep.part(h)
		copy(data, payload)
		payload = data
		s.ep.grants++
		s.granted = true
	}
	s.begin(i, p)
	s.run(h.arguments(p.body, &s.args), payload)
}

// run runs a request handler.
func (s *server) run(args []uint32, data []byte) {
	s.use++
	s.replied = false
	n := s.ep.node
	n.stats.Requests++
	n.run(s.ep.bundle, s.ep.handlers[s.slots[s.current].head.handler], Token{s: s, use: s.use}, args, data)
}

// grant lets the client write the data of a bulk request.
func (s *server) grant(i int) {
	slot := &s.slots[i]
	h := &slot.head
	w, err := s.ch.grant(i, s.ep.part(h))
	if err != nil {
		s.turnBack(i, ReasonCongestion)
		return
	}
	s.ep.grants++
	slot.state = serverGranted
	s.say(i, &header{kind: kindClear}, &w)
}

// get answers with data of the segment, which needs no handler here.
func (s *server) get(i int, to uint64) {
	h := &s.slots[i].head
	s.current, s.replied = i, false
	s.answer(OpReplyBulk, h.handler, s.slots[i].args[:h.args], s.ep.part(h), to)
}

// bulkPlaced runs the handler of a bulk request whose data has come.
func (s *server) bulkPlaced(i int) {
	slot := &s.slots[i]
	h := &slot.head
	slot.state = serverQueued
	if reason := s.ep.acceptData(h, false); reason != 0 {
		s.ep.grants--
		s.turnBack(i, reason)
		return
	}
	s.granted = true
	s.begin(i, nil)
	s.run(append(s.args[:0], slot.args[:h.args]...), s.ep.part(h))
}

// finish ends a request that has no reply, or had one that was refused.
func (s *server) finish(i int) {
	s.slots[i].state = serverIdle
	s.say(i, &header{kind: kindDone}, nil)
}

// turnBack returns a request to its sender.
func (s *server) turnBack(i int, reason Reason) {
	s.ep.node.stats.Refused[reason]++
	s.slots[i].state = serverIdle
	s.say(i, &header{kind: kindReturn, reason: reason}, nil)
}

// say sends a message that is no reply.
func (s *server) say(i int, h *header, w *window) {
	if s.closed || s.reason != 0 {
		return
	}
	h.slot, h.use = uint16(i), s.slots[i].use
	b := s.next(i)
	if b == nil {
		s.violated()
		return
	}
	n := h.put(b)
	if w != nil {
		w.put(b[n:])
		n += windowSize
	}
	s.post(i, n, 0)
}

// owes reports whether s has announced a bulk reply that its client has not asked
// for yet.
func (s *server) owes() bool {
	for i := range s.slots {
		if s.slots[i].state == serverAnnounced {
			return !s.closed && s.reason == 0
		}
	}
	return false
}

// errViolation is why a connection ends whose client does not wait for answers.
var errViolation = errors.New("the client has gone on in a slot whose last answer it cannot have received")

// violated ends the connection: the client does not keep to the order of
// messages, and nothing that it is owed can be sent.
func (s *server) violated() {
	s.ep.node.stats.Violations++
	for i := range s.slots {
		s.slots[i].answer = 0
	}
	s.broken(ReasonUnreachable, errViolation)
}
