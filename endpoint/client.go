package endpoint

import "errors"

// client is the half of a connection that has the translation: it sends requests
// and gets their answers.
type client struct {
	ep      *Endpoint
	tr      *translation // nil when that has been unmapped, or has a newer connection
	to      Name
	index   int // of the translation
	ch      channel
	credits Credits
	medium  int
	slots   []slot
	pools   [3]pool
	used    int      // slots not free
	sends   uint64   // requests sent
	tickets uint64   // requests that have waited for a credit
	stalled []uint64 // tickets of those that do
	queue   packets  // answers to be handled
	turn
	tag     Tag    // of the reply that is being handled
	refused Reason // why the reply to slot current is refused; 0: it is not
}

// turn is a half's place among those that have something to handle.
type turn struct {
	queued  bool
	running bool // it is being served
	closed  bool
	args    [MaxShort]uint32
	reason  Reason // why the connection has broken; 0: it has not
	lost    error  // more about that; may be nil
	// What serve leaves to rest, because a handler may end the goroutine.
	handled bool // there was one, or what takes its place
	current int  // its slot
	inUse   *packet
	granted bool // it looks at the segment, which is counted in Endpoint.grants
}

// begin comes before a handler for a slot, which may look at p.
func (t *turn) begin(slot int, p *packet) { t.handled, t.current, t.inUse = true, slot, p }

// ended comes after a handler, for endpoint ep.
func (t *turn) ended(ep *Endpoint) {
	if t.granted {
		ep.grants--
	}
	t.handled, t.inUse, t.granted = false, nil, false
}

// idle reports whether the half, of an endpoint in bundle home, may handle a message
// for bundle b before any other.
func (t *turn) idle(home, b *Bundle) bool {
	return home == b && !b.pending() && !t.queued && !t.running && !t.closed && t.reason == 0
}

// received takes in a message. What needs no handler is seen to at once.
func (c *client) received(p *packet) {
	if c.closed {
		return
	}
	h := &p.head
	s := c.find(h)
	switch {
	case s == nil:
		c.stray(p)
	case h.kind == kindClear && s.state == slotWaiting && s.data != nil && !s.cleared:
		var w window
		if !w.parse(h.payload(p.body)) {
			c.stray(p)
			return
		}
		s.cleared = true
		c.ch.release(p)
		c.ch.write(int(h.slot), s.data, w)
	case h.kind == kindDone && (s.state == slotWaiting || s.state == slotRefusing):
		c.ch.release(p)
		if s.call != nil {
			s.call.finish(ErrNoReply)
		}
		c.free(int(h.slot))
	case h.kind == kindReturn && s.state == slotGranting && s.op == OpGet: // its data do not come after all
		c.ch.revoke(int(h.slot))
		c.ep.grants--
		s.state = slotWaiting
		fallthrough
	case h.kind >= kindReply && h.kind <= kindReturn && s.state == slotWaiting:
		c.queue.push(p)
		c.ready()
	default:
		c.stray(p)
	}
}

// handleNow is half's. It does what received, serve and answered do of a reply that is
// in order, short or with a payload, when nothing else waits to be handled.
func (c *client) handleNow(p *packet, b *Bundle) bool {
	h := &p.head
	if !c.idle(c.ep.bundle, b) || c.queue.head != nil || h.kind != kindReply && h.kind != kindReplyMedium {
		return false
	}
	s := c.find(h)
	payload := h.payload(p.body)
	if s == nil || s.state != slotWaiting || c.ep.acceptReply(h, payload, s.call != nil) != 0 {
		return false
	}
	c.running = true
	defer c.rest()
	c.tag = h.tag
	c.begin(int(h.slot), p)
	c.run(h.handler, h.arguments(p.body, &c.args), payload)
	return true
}

// find returns the slot that a message belongs to.
func (c *client) find(h *header) *slot {
	if int(h.slot) >= len(c.slots) {
		return nil
	}
	if s := &c.slots[h.slot]; s.use == h.use && s.state != slotFree {
		return s
	}
	return nil
}

func (c *client) stray(p *packet) {
	c.ep.node.stats.Strays++
	c.ch.release(p)
}

// ready puts c among those that have something to handle.
func (c *client) ready() {
	if !c.queued && !c.running && !c.closed {
		c.queued = true
		c.ep.bundle.replies.Push(c)
	}
	c.ep.bundle.event()
}

// placed hears that the data of a bulk reply is there.
func (c *client) placed(i int) {
	if s := &c.slots[i]; s.state == slotGranting {
		s.state = slotPlaced
		s.placed = packet{slot: i}
		c.queue.push(&s.placed)
		c.ready()
	}
}

// wrote hears that the data of a bulk request is no longer needed.
func (c *client) wrote(i int) {
	c.slots[i].data = nil
	c.ep.bundle.changed()
}

func (c *client) sent() {
	if c.ep.bundle.following > 0 {
		c.ep.bundle.changed()
	}
}

// take returns a free slot for op, or -1 when there is no credit.
func (c *client) take(op Op) int {
	from := c.credits.poolOf(op)
	p := &c.pools[from]
	if p.n == 0 {
		return -1
	}
	i := int(p.slots[p.head])
	s := &c.slots[i]
	if s.data != nil || !c.ch.idle(i) { // answered, but the provider does not know yet that it arrived
		return -1
	}
	p.take()
	s.state, s.op, s.pool, s.cleared = slotWaiting, op, from, false
	s.use++
	c.used++
	return i
}

// free ends a request: its credit comes back.
func (c *client) free(i int) {
	s := &c.slots[i]
	s.state, s.call = slotFree, nil
	if s.data != nil && !c.ch.writing(i) {
		s.data = nil
	}
	c.pools[s.pool].put(i)
	c.used--
	c.ep.bundle.changed()
	if c.tr == nil && c.used == 0 && c.reason == 0 {
		c.destroy()
	}
}

// broken hears that the connection is gone. The requests under way come back to
// the endpoint one by one, as its bundle is polled.
func (c *client) broken(reason Reason, err error) {
	if c.closed || c.reason != 0 {
		return
	}
	c.reason, c.lost = reason, err
	if c.tr != nil {
		c.tr.client, c.tr.last = nil, c
		c.tr = nil
	}
	c.ep.node.stats.Broken++
	c.ready()
}

// detach lets c go when its requests have ended.
func (c *client) detach() {
	c.tr, c.index = nil, -1
	if c.used == 0 && c.reason == 0 {
		c.destroy()
	}
}

// destroy closes the connection and forgets c, once no handler looks at its
// memory.
func (c *client) destroy() {
	c.closed = true
	if c.running {
		return
	}
	for i := range c.slots {
		if s := &c.slots[i]; s.granting() {
			c.ep.grants--
			s.state = slotFree
		}
	}
	c.queue = packets{}
	delete(c.ep.clients, c)
	c.ch.close()
}

// serve handles answers for bundle b, up to limit while no other connection has
// some, or returns one request of a broken connection. It returns how many.
func (c *client) serve(b *Bundle, limit int) (served int) {
	if c.closed {
		return 0
	}
	c.running = true
	defer c.rest()
	for more := true; more && c.serveOne(); more = served < limit && c.queue.head != nil && b.replies.Len() == 0 && c.ep.bundle == b {
		served++
		if c.handled {
			c.over()
		}
	}
	return served
}

// serveOne reports false when there was nothing.
func (c *client) serveOne() bool {
	switch p := c.queue.pop(); {
	case c.closed:
		return false
	case p == nil:
		return c.reason != 0 && c.giveBack()
	case p.body == nil:
		c.bulkReplied(p.slot)
	default:
		c.answered(p)
	}
	return true
}

// rest is the end of serve, also when a handler has ended the goroutine.
func (c *client) rest() {
	if c.handled {
		c.over()
	}
	c.running = false
	switch {
	case c.closed:
		c.destroy()
	case c.queue.head != nil || c.reason != 0:
		c.ready()
	}
}

// over follows a handler, in which c may have been closed: it ends the request,
// or has the server end it.
func (c *client) over() {
	i, p, refused := c.current, c.inUse, c.refused
	c.ended(c.ep)
	c.refused = 0
	if c.closed {
		return
	}
	if p != nil {
		c.ch.release(p)
	}
	if refused == 0 {
		c.free(i)
		return
	}
	c.slots[i].state = slotRefusing
	c.control(i, &header{kind: kindRefuse, reason: refused}, nil)
}

// giveBack returns the request that was sent first of those that a broken connection
// leaves.
func (c *client) giveBack() bool {
	first := -1
	for i := range c.slots {
		switch s := &c.slots[i]; {
		case s.state == slotFree:
		case s.state == slotRefusing: // it has been handled and answered
			c.free(i)
		case first < 0 || s.order < c.slots[first].order:
			first = i
		}
	}
	if first < 0 {
		c.destroy()
		return false
	}
	c.comeBack(first, c.reason, c.lost)
	return true
}

// begin comes before a handler, which may look at p.
func (c *client) begin(i int, p *packet) {
	c.slots[i].state = slotHandling
	c.turn.begin(i, p)
}

// comeBack returns the request in slot i to the endpoint and ends it.
func (c *client) comeBack(i int, reason Reason, err error) {
	s := &c.slots[i]
	if s.granting() {
		c.ep.grants--
	}
	c.begin(i, nil)
	if s.call != nil {
		s.call.finish(&CallError{Reason: reason, Err: err})
		return
	}
	c.returnRequest(i, reason, err)
}

// returnRequest returns the request in slot i to the endpoint.
func (c *client) returnRequest(i int, reason Reason, err error) {
	s := &c.slots[i]
	b := c.ch.buffer(i)[:s.n]
	var h header
	body, _ := h.parse(b, nil)
	payload := h.payload(body)
	if h.kind == kindGet || h.kind == kindAnnounce { // the data is, or was to be, elsewhere
		payload = nil
	}
	r := Returned{Endpoint: c.ep, Reason: reason, Op: s.op, Dest: c.index, To: c.to, Handler: h.handler,
		Args: h.arguments(body, &c.args), Data: payload, Offset: h.offset, Length: int(h.length), Err: err}
	if s.data != nil {
		r.Data = s.data
	}
	c.ep.giveBack(&r)
}

// answered handles a reply or the return of a request.
func (c *client) answered(p *packet) {
	h, payload := &p.head, p.head.payload(p.body)
	i := int(h.slot)
	s := &c.slots[i]
	if s.use != h.use || s.state != slotWaiting {
		c.stray(p)
		return
	}
	if h.kind == kindReturn {
		c.ch.release(p)
		c.ep.node.stats.Returns++
		c.comeBack(i, h.reason, nil)
		return
	}
	if reason := c.ep.acceptReply(h, payload, s.call != nil); reason != 0 {
		c.ch.release(p)
		c.refuse(i, reason)
		return
	}
	data := payload
	c.tag = h.tag
	switch h.kind {
	case kindReplyAnnounce:
		c.grant(i, h, p)
		return
	case kindReplyBulk:
		data = c.ep.part(h)
		copy(data, payload)
		c.ep.grants++
		c.granted = true
	}
	c.begin(i, p)
	c.run(h.handler, h.arguments(p.body, &c.args), data)
}

// run gives a reply to the call that waits for it, or to its handler.
func (c *client) run(handler uint8, args []uint32, data []byte) {
	if call := c.slots[c.current].call; call != nil {
		call.answer(args, data)
		return
	}
	c.ep.node.stats.Replies++
	c.ep.node.run(c.ep.bundle, c.ep.handlers[handler], Token{c: c}, args, data)
}

// control sends an answer about a bulk reply for slot i.
func (c *client) control(i int, h *header, w *window) {
	h.slot, h.use = uint16(i), c.slots[i].use
	at := len(c.slots) + i
	b := c.ch.buffer(at)
	n := h.put(b)
	if w != nil {
		w.put(b[n:])
		n += windowSize
	}
	c.ch.post(at, n, 0)
}

// refuse tells the server that its reply to slot i is not wanted.
func (c *client) refuse(i int, reason Reason) {
	s := &c.slots[i]
	c.ep.node.stats.Refused[reason]++
	if s.call != nil {
		s.call.finish(&CallError{Reason: ReasonReplyRejected, Err: errors.New(reason.String())})
		s.call = nil
		c.ep.bundle.changed()
	}
	c.begin(i, nil)
	c.refused = reason
	if s.op == OpGet { // whose data the server has not sent of its own will
		c.returnRequest(i, reason, nil)
	}
}

// grant lets the server write the data of a bulk reply.
func (c *client) grant(i int, h *header, p *packet) {
	s := &c.slots[i]
	s.reply.copy(h)
	h.arguments(p.body, &s.args)
	c.ch.release(p)
	w, err := c.ch.grant(i, c.ep.part(h))
	if err != nil {
		c.refuse(i, ReasonCongestion)
		return
	}
	c.ep.grants++
	s.state = slotGranting
	c.control(i, &header{kind: kindClear}, &w)
}

// bulkReplied runs the handler of a bulk reply whose data has come.
func (c *client) bulkReplied(i int) {
	s := &c.slots[i]
	h := &s.reply
	if reason := c.ep.acceptData(h, s.call != nil); reason != 0 {
		c.ep.grants--
		c.refuse(i, reason)
		return
	}
	c.granted = true
	c.begin(i, nil)
	c.tag = h.tag
	c.run(h.handler, append(c.args[:0], s.args[:h.args]...), c.ep.part(h))
}

// abandonCalls ends the calls that wait for c's requests.
func (c *client) abandonCalls() {
	for i := range c.slots {
		if call := c.slots[i].call; call != nil {
			call.finish(c.ep.gone())
		}
	}
}
