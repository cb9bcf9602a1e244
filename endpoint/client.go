package endpoint

import (
	"errors"

	"github.com/bobnet-go/bobnet/endpoint/internal/provider"
	"github.com/bobnet-go/bobnet/endpoint/internal/wire"
)

// client is the half of a connection that belongs to the translation: it sends requests and
// receives their answers.
type client struct {
	ep      *Endpoint
	tr      *translation // nil when the translation has been unmapped, or has a newer connection
	to      Name
	index   int // of the translation
	ch      provider.Channel
	credits Credits
	medium  int
	slots   []slot
	pools   [3]pool
	used    int              // slots not free
	sends   uint32           // number of requests sent, and of the last request
	owing   int              // slots that owe the server a message
	tickets uint64           // requests that have waited for a credit
	stalled []uint64         // tickets of requests that wait now
	queue   provider.Packets // answers to be handled
	turn
	tag     Tag    // of the reply that is being handled
	refused Reason // why the reply to slot current is refused; 0 if it is accepted
}

// turn is a half's place in the queue of halves with messages to handle.
type turn struct {
	queued  bool
	running bool // the half is being served
	closed  bool
	args    [MaxShort]uint32
	reason  Reason // why the connection has broken; 0 if it has not
	lost    error  // details of reason; may be nil
	// State that serve leaves to rest, because a handler may end its goroutine.
	handled bool // a handler, or its substitute, was called
	current int  // slot of the handled message
	inUse   *provider.Packet
	granted bool // the half uses the segment, which Endpoint.grants counts
}

// begin is called before a handler for a slot. The handler may read p.
func (t *turn) begin(slot int, p *provider.Packet) { t.handled, t.current, t.inUse = true, slot, p }

// ended is called after a handler of endpoint ep.
func (t *turn) ended(ep *Endpoint) {
	if t.granted {
		ep.grants--
	}
	t.handled, t.inUse, t.granted = false, nil, false
}

// idle reports whether the half, of an endpoint in bundle home, may handle a message for bundle b
// before all others.
func (t *turn) idle(home, b *Bundle) bool {
	return home == b && !b.pending() && !t.queued && !t.running && !t.closed && t.reason == 0
}

// Received queues a message, or handles it at once if it needs no handler.
func (c *client) Received(p *provider.Packet) {
	if c.closed {
		return
	}
	h := &p.Head
	s := c.find(h)
	switch {
	case s == nil:
		c.stray(p)
	case s.hole:
		c.holeAnswered(s, p)
	case h.Kind == wire.KindClear && s.state == slotWaiting && s.data != nil && !s.cleared:
		var w wire.Window
		if !w.Parse(h.Payload(p.Body)) {
			c.stray(p)
			return
		}
		s.cleared = true
		c.ch.Release(p)
		c.ch.Write(int(h.Slot), s.data, w, s.awaited)
	case h.Kind == wire.KindDone && (s.state == slotWaiting || s.state == slotRefusing):
		c.ch.Release(p)
		if s.call != nil {
			s.call.finish(ErrNoReply)
		}
		c.free(int(h.Slot))
	case h.Kind == wire.KindReturn && s.state == slotGranting: // its data will not arrive
		c.ungrant(int(h.Slot))
		fallthrough
	case h.Kind >= wire.KindReply && h.Kind <= wire.KindReturn && s.state == slotWaiting:
		c.queue.Push(p)
		c.ready()
	default:
		c.stray(p)
	}
}

// ungrant revokes the grant to slot i.
func (c *client) ungrant(i int) {
	c.ch.Revoke(i)
	c.ep.grants--
	c.slots[i].state = slotWaiting
}

// HandleNow implements half. If no other message waits, it does the work of received, serve and
// answered for a valid reply, short or with a payload.
func (c *client) HandleNow(p *provider.Packet) bool {
	h := &p.Head
	if !c.idle(c.ep.bundle, c.ep.node.atOnce) || c.queue.Head != nil || h.Kind != wire.KindReply && h.Kind != wire.KindReplyMedium {
		return false
	}
	s := c.find(h)
	payload := h.Payload(p.Body)
	if s == nil || s.state != slotWaiting || c.ep.acceptReply(h, payload, s.call != nil) != 0 {
		return false
	}
	c.running = true
	defer c.rest()
	c.tag = h.Tag
	c.begin(int(h.Slot), p)
	c.run(h.Handler, h.Arguments(p.Body, &c.args), payload)
	return true
}

// find returns the slot that a message belongs to.
func (c *client) find(h *wire.Header) *slot {
	if int(h.Slot) >= len(c.slots) {
		return nil
	}
	if s := &c.slots[h.Slot]; s.use == h.Use && s.state != slotFree {
		return s
	}
	return nil
}

func (c *client) stray(p *provider.Packet) {
	c.ep.node.stats.Strays++
	c.ch.Release(p)
}

// ready queues c among the halves with messages to handle.
func (c *client) ready() {
	if !c.queued && !c.running && !c.closed {
		c.queued = true
		c.ep.bundle.replies.Push(c)
	}
	c.ep.bundle.event(!c.ep.silent)
}

// Placed handles the arrival of a bulk reply's data.
func (c *client) Placed(i int) {
	if s := &c.slots[i]; s.state == slotGranting {
		s.state = slotPlaced
		s.placed = provider.Packet{Slot: i}
		c.queue.Push(&s.placed)
		c.ready()
	}
}

// Wrote handles the completion of the write of a bulk request's data.
func (c *client) Wrote(i int) {
	c.slots[i].data = nil
	c.ep.bundle.changed()
}

func (c *client) Sent() {
	if c.owing > 0 {
		c.payOwed()
	}
	if c.ep.bundle.following > 0 {
		c.ep.bundle.changed()
	}
}

// claimSlot returns a free slot for op, or -1 if there is no credit.
func (c *client) claimSlot(op Op) int {
	from := c.credits.poolOf(op)
	p := &c.pools[from]
	if p.n == 0 {
		return -1
	}
	i := p.newest()
	if c.used == 0 && c.slots[i].long() && c.arrived(i) { // the server has memory for a long reply in it already
		p.n--
	} else if i = int(p.slots[p.head]); c.arrived(i) {
		p.advance()
	} else {
		return -1
	}
	s := &c.slots[i]
	s.state, s.op, s.pool, s.cleared, s.second, s.landed = slotWaiting, op, from, false, false, false
	c.sends++
	s.use = c.sends
	c.used++
	return i
}

// arrived reports whether the last request in slot i has arrived completely, as far as the provider
// knows. Its answer may have arrived earlier.
func (c *client) arrived(i int) bool {
	s := &c.slots[i]
	return s.data == nil && c.ch.Idle(i) && (!s.second || c.ch.Idle(len(c.slots)+i))
}

// free ends a request and returns its credit.
func (c *client) free(i int) {
	s := &c.slots[i]
	c.fillHole(s)
	s.state, s.call = slotFree, nil
	if s.data != nil && !c.ch.Writing(i) {
		s.data = nil
	}
	c.pools[s.pool].put(i)
	c.used--
	c.ep.bundle.changed()
	if c.tr == nil && c.used == 0 && c.reason == 0 {
		c.destroy()
	}
}

// Broken handles the loss of the connection. The requests in flight return to the endpoint one by
// one, as its bundle is polled.
func (c *client) Broken(reason Reason, err error) {
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

// detach destroys c once its requests have ended.
func (c *client) detach() {
	c.tr, c.index = nil, -1
	if c.used == 0 && c.reason == 0 {
		c.destroy()
	}
}

// destroy closes the connection and deletes c, once no handler uses its memory.
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
	c.queue = provider.Packets{}
	c.ep.clients.remove(c)
	c.ch.Close()
}

// serve handles answers for bundle b, and returns their number. It handles up to limit while no
// other connection has answers. For a broken connection it returns one request.
func (c *client) serve(b *Bundle, limit int) (served int) {
	if c.closed {
		return 0
	}
	c.running = true
	defer c.rest()
	for more := true; more && c.serveOne(); more = served < limit && c.queue.Head != nil && b.replies.Len() == 0 && c.ep.bundle == b {
		served++
		if c.handled {
			c.over()
		}
	}
	return served
}

// serveOne handles one answer. It reports false if there was none.
func (c *client) serveOne() bool {
	switch p := c.queue.Pop(); {
	case c.closed:
		return false
	case p == nil:
		return c.reason != 0 && c.giveBack()
	case p.Body == nil:
		c.bulkReplied(p.Slot)
	default:
		c.answered(p)
	}
	return true
}

// rest finishes serve, also if a handler has ended the goroutine.
func (c *client) rest() {
	if c.handled {
		c.over()
	}
	c.running = false
	switch {
	case c.closed:
		c.destroy()
	case c.queue.Head != nil || c.reason != 0:
		c.ready()
	}
}

// over is called after a handler, which may have closed c. It ends the request, or asks the server
// to end it.
func (c *client) over() {
	i, p, refused := c.current, c.inUse, c.refused
	c.ended(c.ep)
	c.refused = 0
	if c.closed {
		return
	}
	if p != nil {
		c.ch.Release(p)
	}
	switch s := &c.slots[i]; {
	case refused != 0:
		s.state, s.why = slotRefusing, refused
		c.owe(i, wire.KindRefuse)
	case s.hole:
		s.state = slotSkipping
	default:
		c.free(i)
	}
}

// giveBack returns the oldest request of a broken connection.
func (c *client) giveBack() bool {
	first := -1
	for i := range c.slots {
		switch s := &c.slots[i]; {
		case s.state == slotFree:
		case s.state == slotRefusing || s.state == slotSkipping: // the request has been handled and answered, or has returned
			c.free(i)
		case first < 0 || int32(s.use-c.slots[first].use) < 0:
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

// begin is called before a handler. The handler may read p.
func (c *client) begin(i int, p *provider.Packet) {
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
	b := c.ch.Buffer(i)[:s.n]
	var h wire.Header
	body, _ := h.Parse(b, nil)
	payload := h.Payload(body)
	if h.Kind == wire.KindGet || h.Kind == wire.KindAnnounce { // the data is elsewhere, or was to be
		payload = nil
	}
	r := Returned{Endpoint: c.ep, Reason: reason, Op: s.op, Dest: c.index, To: c.to, Handler: h.Handler,
		Args: h.Arguments(body, &c.args), Data: payload, Offset: h.Offset, Length: int(h.Length), Err: err}
	if s.data != nil {
		r.Data = s.data
	}
	c.ep.giveBack(&r)
}

// answered handles a reply or the return of a request.
func (c *client) answered(p *provider.Packet) {
	h, payload := &p.Head, p.Head.Payload(p.Body)
	i := int(h.Slot)
	s := &c.slots[i]
	switch {
	case s.use == h.Use && s.hole: // the request has returned alone meanwhile
		c.holeAnswered(s, p)
		return
	case s.use != h.Use || s.state != slotWaiting:
		c.stray(p)
		return
	}
	if h.Kind == wire.KindReturn {
		c.ch.Release(p)
		c.ep.node.stats.Returns++
		c.comeBack(i, h.Reason, nil)
		return
	}
	if reason := c.ep.acceptReply(h, payload, s.call != nil); reason != 0 {
		c.ch.Release(p)
		c.refuse(i, reason)
		return
	}
	data := payload
	c.tag = h.Tag
	switch h.Kind {
	case wire.KindReplyAnnounce:
		c.grant(i, h, p)
		return
	case wire.KindReplyBulk:
		data, s.landed = c.ep.part(h), p.Landed
		copy(data, payload)
		c.ep.grants++
		c.granted = true
	}
	c.begin(i, p)
	c.run(h.Handler, h.Arguments(p.Body, &c.args), data)
}

// run passes a reply to the call that waits for it, or to its handler.
func (c *client) run(handler uint8, args []uint32, data []byte) {
	if call := c.slots[c.current].call; call != nil {
		call.answer(args, data)
		return
	}
	c.ep.node.stats.Replies++
	c.ep.node.run(c.ep.bundle, c.ep.handlers[handler], Token{c: c}, args, data)
}

// control sends an answer about a bulk reply for slot i.
func (c *client) control(i int, h *wire.Header, w *wire.Window) {
	s := &c.slots[i]
	h.Slot, h.Use = uint16(i), s.use
	at := len(c.slots) + i
	b := c.ch.Buffer(at)
	n := h.Put(b)
	if w != nil {
		w.Put(b[n:])
		n += wire.WindowSize
	}
	s.second, s.again, s.length = true, false, n
	c.ch.Post(at, n, 0)
}

// refuse notifies the server that the client refuses its reply to slot i.
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
	if s.op == OpGet { // the server only sends the data of a get on request
		c.returnRequest(i, reason, nil)
	}
}

// grant lets the server write the data of a bulk reply.
func (c *client) grant(i int, h *wire.Header, p *provider.Packet) {
	s := &c.slots[i]
	s.reply.Copy(h)
	h.Arguments(p.Body, &s.args)
	c.ch.Release(p)
	w, err := c.ch.Grant(i, c.ep.part(h))
	if err != nil {
		c.refuse(i, ReasonCongestion)
		return
	}
	c.ep.grants++
	s.state = slotGranting
	c.control(i, &wire.Header{Kind: wire.KindClear}, &w)
}

// bulkReplied runs the handler of a bulk reply whose data has arrived, or handles the return of a
// request that has returned alone.
func (c *client) bulkReplied(i int) {
	s := &c.slots[i]
	if s.state == slotLost {
		c.comeBack(i, s.why, nil)
		return
	}
	h := &s.reply
	if reason := c.ep.acceptData(h, s.call != nil); reason != 0 {
		c.ep.grants--
		c.refuse(i, reason)
		return
	}
	c.granted = true
	c.begin(i, nil)
	c.tag = h.Tag
	c.run(h.Handler, append(c.args[:0], s.args[:h.Args]...), c.ep.part(h))
}

// abandonCalls ends the calls that wait for c's requests.
func (c *client) abandonCalls() {
	for i := range c.slots {
		if call := c.slots[i].call; call != nil {
			call.finish(c.ep.gone())
		}
	}
}
