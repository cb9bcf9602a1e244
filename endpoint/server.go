package endpoint

import (
	"encoding/binary"
	"errors"

	"github.com/bobnet-go/bobnet/endpoint/internal/provider"
	"github.com/bobnet-go/bobnet/endpoint/internal/wire"
)

// server is the half of a connection that receives requests and answers them.
type server struct {
	ep    *Endpoint
	from  Name // as the client claims; over VIs its MAC is that of the station that sent the request
	ch    provider.Channel
	shape wire.Shape
	slots []serverSlot
	queue provider.Packets // requests, and returned replies
	// together is the number of answers that may be batched: a share of the client's requests in
	// flight, so that the client does not run out of credits meanwhile. It is 1 if the client waits
	// for its only request.
	together int
	turn
	use     uint32 // of the token, counts handlers
	due     uint32 // number of the request whose turn it is
	held    int    // held messages, in all slots
	replied bool   // the current request has a reply
}

// replyShare determines the size of a batch of answers: the number of the client's requests in
// flight, divided by replyShare.
const replyShare = 2

// serverState is the progress of a request at the server.
type serverState uint8

const (
	serverIdle      serverState = iota
	serverQueued                // waits for its handler, or for the data of the reply
	serverGranted               // waits for its bulk data
	serverPlaced                // its bulk data has arrived; waits for its handler
	serverAnnounced             // its bulk reply waits for a window
	serverLost                  // its reply has returned alone; waits for the ReturnHandler
	serverDeferred              // its handler has deferred the reply
)

// serverSlot is the server's state of one of the client's slots.
type serverSlot struct {
	state    serverState
	posts    uint8       // messages sent; the send buffers of the slot are used in turn
	answer   Op          // kind of the last message; 0 if it was no reply
	n        int         // length of the last message
	use      uint32      // the client's
	head     wire.Header // of the request
	args     [MaxShort]uint32
	source   []byte    // of the bulk reply, unless it is a get's
	reads    int       // gets that refer to the segment
	fetching bool      // the write in progress is one of these gets
	bounce   [2][]byte // memory for the bulk reply, and for the next one, whose preparation may overlap the write of this one
	placed   provider.Packet
	held     *provider.Packet // see order.go
	again    bool             // the last message has returned alone once
	why      Reason           // why the reply has returned alone
}

// last returns the number of the slot's send buffer that was used last.
func (s *server) last(i int) int { return i + s.shape.Slots*int(s.slots[i].posts&1) }

// next returns the number of the send buffer for the next message. This buffer is idle whenever an
// answer is due.
func (s *server) next(i int) int { return i + s.shape.Slots*int((s.slots[i].posts+1)&1) }

// post sends the first n bytes of the buffer that next returned.
func (s *server) post(i, n int, answer Op) {
	s.built(i, n, answer)
	s.ch.Post(s.last(i), n, s.together)
}

// built records that the message in the buffer that next returned is being sent.
func (s *server) built(i, n int, answer Op) {
	slot := &s.slots[i]
	slot.posts++
	slot.answer, slot.n, slot.again = answer, n, false
}

// Received handles a message.
func (s *server) Received(p *provider.Packet) {
	if s.closed || s.reason != 0 {
		return
	}
	h := &p.Head
	if int(h.Slot) >= len(s.slots) {
		s.stray(p)
		return
	}
	i := int(h.Slot)
	slot := &s.slots[i]
	ok := false
	switch {
	case h.Kind.Request():
		ok = (slot.state == serverIdle || slot.state == serverLost) && s.fresh(h)
	case h.Kind == wire.KindSkip:
		ok = h.Use == slot.use || (slot.state == serverIdle || slot.state == serverLost) && s.fresh(h)
	case h.Kind == wire.KindRefuse:
		ok = h.Use == slot.use && (slot.state == serverIdle || slot.state == serverAnnounced) && slot.answer != 0
	case h.Kind == wire.KindClear:
		ok = h.Use == slot.use && slot.state == serverAnnounced
	}
	if s.reason != 0 {
		return
	}
	if !ok {
		s.stray(p)
		return
	}
	s.arrives(i, p)
}

// carryOut carries out a message, or its substitute, in slot i.
func (s *server) carryOut(i int, p *provider.Packet) {
	slot, h := &s.slots[i], &p.Head
	switch {
	case p.Body == nil:
		s.waitsTurn(p)
	case h.Kind.Request():
		slot.state, slot.use = serverQueued, h.Use
		s.due++
		s.together = int(h.Underway) / replyShare
		s.waitsTurn(p)
	case h.Kind == wire.KindSkip && h.Use == s.due:
		slot.use = h.Use
		s.due++
		s.ch.Release(p)
		s.finish(i)
	case h.Kind == wire.KindSkip:
		s.skipped(i, p)
	case h.Kind == wire.KindRefuse:
		if slot.state == serverAnnounced && slot.head.Kind == wire.KindGet {
			s.letGo(slot)
		}
		slot.state = serverQueued
		s.waitsTurn(p)
	default:
		var w wire.Window
		if !w.Parse(h.Payload(p.Body)) {
			s.stray(p)
			return
		}
		s.ch.Release(p)
		s.cleared(i, w)
	}
}

// waitsTurn queues p for a handler.
func (s *server) waitsTurn(p *provider.Packet) {
	s.queue.Push(p)
	s.ready()
}

// HandleNow implements half. If no other message waits, it does the work of received, serve and
// handle for a valid request, short or with a payload, whose answer need not be batched.
func (s *server) HandleNow(p *provider.Packet) bool {
	h := &p.Head
	i := int(h.Slot)
	if !s.idle(s.ep.bundle, s.ep.node.atOnce) || s.queue.Head != nil || h.Kind != wire.KindShort && h.Kind != wire.KindMedium || i >= len(s.slots) {
		return false
	}
	slot, payload, together := &s.slots[i], h.Payload(p.Body), int(h.Underway)/replyShare
	if slot.state != serverIdle || h.Use != s.due || s.held > 0 || together > 1 || !s.ch.Idle(s.next(i)) || s.ep.acceptRequest(h, payload, s.shape.Medium) != 0 {
		return false
	}
	slot.state, slot.use, s.together = serverQueued, h.Use, together
	s.due++
	slot.head.Copy(h)
	slot.answer, slot.source = 0, nil
	s.running = true
	defer s.rest()
	s.begin(i, p)
	s.run(h.Arguments(p.Body, &s.args), payload)
	return true
}

func (s *server) stray(p *provider.Packet) {
	s.ep.node.stats.Strays++
	s.ch.Release(p)
}

// ready queues s among the halves with messages to handle.
func (s *server) ready() {
	if !s.queued && !s.running && !s.closed {
		s.queued = true
		s.ep.bundle.requests.Push(s)
	}
	s.ep.bundle.event(!s.ep.silent)
}

// Placed handles the arrival of a bulk request's data.
func (s *server) Placed(i int) {
	if slot := &s.slots[i]; slot.state == serverGranted {
		slot.state, slot.placed = serverPlaced, provider.Packet{Slot: i}
		s.arrives(i, &slot.placed)
	}
}

// Sent implements half.
func (s *server) Sent() {
	if s.held > 0 && !s.closed && s.reason == 0 {
		s.resume()
	}
}

// Broken handles the loss of the connection. Requests that were not handled return to their sender.
// Replies return here. If the client closed the connection itself, nothing returns: the server
// handles the messages already received, except those that need further data.
func (s *server) Broken(reason Reason, err error) {
	if s.closed || s.reason != 0 {
		return
	}
	s.reason, s.lost = reason, err
	s.ep.node.stats.Broken++
	if s.left() {
		s.resume() // messages that wait for a send buffer need none now
	} else {
		s.queue = provider.Packets{}
	}
	s.dropHeld()
	if s.left() && s.queue.Head == nil {
		s.destroy()
		return
	}
	s.ready()
}

// left reports whether the client has ended the connection.
func (s *server) left() bool { return s.reason == ReasonBadEndpoint }

// destroy closes the connection and deletes s, once no handler uses its memory.
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
	s.queue = provider.Packets{}
	s.dropHeld()
	s.ep.servers.remove(s)
	s.ep.countSender(s.from.Addr.MAC, -1)
	s.ch.Close()
}

// serve handles requests for bundle b, and returns their number. It handles up to limit while no
// other connection has messages. For a broken connection it returns one reply.
func (s *server) serve(b *Bundle, limit int) (served int) {
	if s.closed {
		return 0
	}
	s.running = true
	defer s.rest()
	for more := true; more && s.serveOne(); more = served < limit && s.queue.Head != nil && !b.pending() && s.ep.bundle == b {
		served++
		if s.handled {
			s.over()
		}
	}
	return served
}

// serveOne handles one request. It reports false if there was none.
func (s *server) serveOne() bool {
	switch p := s.queue.Pop(); {
	case s.closed:
		return false
	case p == nil && s.left():
		s.destroy()
		return false
	case p == nil:
		return s.reason != 0 && s.giveBack()
	case p.Body == nil:
		s.bulkPlaced(p.Slot)
	default:
		s.handle(p)
	}
	return true
}

// rest finishes serve, as for a client.
func (s *server) rest() {
	if s.handled {
		s.over()
	}
	s.running = false
	switch {
	case s.closed:
		s.destroy()
	case s.queue.Head != nil || s.reason != 0:
		s.ready()
	}
}

// over is called after a handler. It ends the request, unless a reply does that.
func (s *server) over() {
	p := s.inUse
	s.ended(s.ep)
	s.use++
	switch slot := &s.slots[s.current]; {
	case s.replied: // if the reply has returned meanwhile, its turn follows
	case slot.state == serverLost:
		s.answerInPlace(s.current)
		s.fail(s.current, slot.why)
	default:
		s.finish(s.current)
	}
	if p != nil && !s.closed {
		s.ch.Release(p)
	}
}

// giveBack returns the next reply that may not have arrived.
func (s *server) giveBack() bool {
	for i := range s.slots {
		slot := &s.slots[i]
		if slot.answer == 0 || slot.state == serverIdle && s.ch.Idle(s.last(i)) && !s.ch.Writing(i) {
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
	b := s.ch.Buffer(s.last(i))[:slot.n]
	var h wire.Header
	body, _ := h.Parse(b, nil)
	r := Returned{Endpoint: s.ep, Reason: reason, Op: slot.answer, Dest: -1, To: s.from, Handler: h.Handler,
		Args: h.Arguments(body, &s.args), Data: h.Payload(body), Offset: h.Offset, Length: int(h.Length), Err: err}
	if slot.source != nil {
		r.Data = slot.source
	}
	slot.answer, slot.source = 0, nil
	if h.Handler == 0 || slot.head.Kind == wire.KindGet {
		// The reply belongs to a function of Serve, and the peer called its handler without Call.
		// Or it is data that the client fetched by a get.
		return
	}
	s.ep.giveBack(&r)
}

// handle handles a request, or a reply that was refused.
func (s *server) handle(p *provider.Packet) {
	h, payload := &p.Head, p.Head.Payload(p.Body)
	i := int(h.Slot)
	slot := &s.slots[i]
	if h.Kind == wire.KindRefuse {
		s.ch.Release(p)
		s.ep.node.stats.Returns++
		s.begin(i, nil)
		s.replied = false
		s.comeBack(i, ReasonReplyRejected, errors.New(h.Reason.String()))
		return
	}
	slot.head.Copy(h)
	slot.answer, slot.source = 0, nil
	medium := s.shape.Medium
	if p.Landed {
		medium = len(payload)
	}
	if reason := s.ep.acceptRequest(h, payload, medium); reason != 0 {
		s.turnBack(i, reason)
		s.ch.Release(p)
		return
	}
	if s.left() && (h.Kind == wire.KindAnnounce || h.Kind == wire.KindGet) {
		s.ch.Release(p) // its data will never arrive, or no one needs it
		slot.state = serverIdle
		return
	}
	switch h.Kind {
	case wire.KindAnnounce:
		h.Arguments(p.Body, &slot.args)
		s.ch.Release(p)
		s.grant(i)
		return
	case wire.KindGet:
		h.Arguments(p.Body, &slot.args)
		to := binary.LittleEndian.Uint64(payload)
		s.ch.Release(p)
		s.get(i, to)
		return
	case wire.KindBulk:
		data := s.ep.part(h)
		copy(data, payload)
		s.ep.grants++
		s.granted = true
		args := h.Arguments(p.Body, &s.args)
		s.ch.Release(p) // the reply may let the client write to that place while the handler still runs
		s.begin(i, nil)
		s.run(args, data)
		return
	}
	s.begin(i, p)
	s.run(h.Arguments(p.Body, &s.args), payload)
}

// run runs a request handler.
func (s *server) run(args []uint32, data []byte) {
	s.use++
	s.replied = false
	n := s.ep.node
	n.stats.Requests++
	n.run(s.ep.bundle, s.ep.handlers[s.slots[s.current].head.Handler], Token{s: s, use: s.use}, args, data)
}

// grant permits the client to write the data of a bulk request.
func (s *server) grant(i int) {
	slot := &s.slots[i]
	h := &slot.head
	w, err := s.ch.Grant(i, s.ep.part(h))
	if err != nil {
		s.turnBack(i, ReasonCongestion)
		return
	}
	s.ep.grants++
	slot.state = serverGranted
	s.say(i, &wire.Header{Kind: wire.KindClear}, &w)
}

// get answers with data of the segment; no handler runs here.
func (s *server) get(i int, to uint64) {
	h := &s.slots[i].head
	s.current, s.replied = i, false
	s.answer(OpReplyBulk, h.Handler, s.slots[i].args[:h.Args], s.ep.part(h), to)
}

// bulkPlaced runs the handler of a bulk request whose data has arrived, or of a reply that has
// returned alone.
func (s *server) bulkPlaced(i int) {
	slot := &s.slots[i]
	h := &slot.head
	if slot.state == serverLost {
		s.giveUp(i)
		return
	}
	slot.state = serverQueued
	if reason := s.ep.acceptData(h, false); reason != 0 {
		s.ep.grants--
		s.turnBack(i, reason)
		return
	}
	s.granted = true
	s.begin(i, nil)
	s.run(append(s.args[:0], slot.args[:h.Args]...), s.ep.part(h))
}

// finish ends a request without a reply, or whose reply was refused.
func (s *server) finish(i int) {
	s.slots[i].state = serverIdle
	s.say(i, &wire.Header{Kind: wire.KindDone}, nil)
}

// turnBack returns a request to its sender.
func (s *server) turnBack(i int, reason Reason) {
	s.ep.node.stats.Refused[reason]++
	s.fail(i, reason)
}

// fail ends a request by returning it to its sender.
func (s *server) fail(i int, reason Reason) {
	s.slots[i].state = serverIdle
	s.say(i, &wire.Header{Kind: wire.KindReturn, Reason: reason}, nil)
}

// say sends a message that is not a reply.
func (s *server) say(i int, h *wire.Header, w *wire.Window) {
	if s.closed || s.reason != 0 {
		return
	}
	h.Slot, h.Use = uint16(i), s.slots[i].use
	b := s.ch.Buffer(s.next(i))
	n := h.Put(b)
	if w != nil {
		w.Put(b[n:])
		n += wire.WindowSize
	}
	s.post(i, n, 0)
}

// owes reports whether s has announced a bulk reply that its client has not requested yet.
func (s *server) owes() bool {
	for i := range s.slots {
		if s.slots[i].state == serverAnnounced {
			return !s.closed && s.reason == 0
		}
	}
	return false
}
