package endpoint

import "encoding/binary"

// Messages wait for company and share one VI message, up to gatherMax bytes of
// them: each message of a VI takes a frame's share, a receive, and two
// completions, more than a short message takes else. Which may wait, and for how
// many others, is for the halves to say: the requests of a client that has others
// under way, and the answers to those. So gathering costs those nothing that
// come alone. What was gathered goes when it is that many, when it fills its
// envelope, when it has waited for long and another comes, and else by flush: when
// a batch of handlers has run, when the caller polls or waits, and when its
// requests come so slowly that each is sent with a look at what has arrived.
//
// The receiver hands the messages on one by one. Its buffer is posted again when
// the last of them has been released. So every buffer that is not posted holds
// a message that has not been handled, but for the one whose handler is running,
// and the reasoning of slot.go holds as if each had a buffer to itself.
const (
	gatherMax    = 4000   // bytes of messages in an envelope
	gatherMost   = 64     // messages in an envelope
	gatherLook   = 4      // at so many messages, twice, and so on, the clock is read
	gatherTime   = 50_000 // ns that a message may wait for others to be sent
	numEnvelopes = 4      // of a channel; when all are under way messages go one by one
)

// Bytes 6 and 7 of a message's header say how long it is if another one follows
// in the same VI message; 0: it is the last.
const lengthAt = 6

// rounded is the room that a message of n bytes takes before another, so that
// each begins at a multiple of 4 bytes.
func rounded(n int) int { return (n + 3) &^ 3 }

// gathering holds what a channel has gathered.
type gathering struct {
	waiting []int // send buffers, in the order of posting
	bytes   int   // that they take
	since   int64 // when the first of them was posted
	flying  int   // VI messages under way
	dirty   bool  // the channel is in viWay.gathering
}

// post is channel's. A message is sent from its buffer, or copied to an envelope
// with others; either way the buffer is idle when the peer's interface has it.
func (ch *viChannel) post(i, n, company int) {
	if ch.broken || ch.closed {
		return
	}
	x := &ch.sends[i]
	x.n, x.busy = n, true
	g := &ch.gathered
	room := rounded(n)
	if g.bytes+room > ch.room || len(g.waiting) == gatherMost {
		ch.flush()
	}
	if len(g.waiting) == 0 && (company < 2 || room > ch.room/2) {
		ch.launch(x)
		if company == hurry {
			ch.vi.Flush()
		}
		return
	}
	g.waiting = append(g.waiting, i)
	g.bytes += room
	ch.way.node.gathered[ch.side]++
	switch {
	case company != hurry && len(g.waiting) >= company:
		ch.flush()
	case company == hurry || ch.overdue():
		ch.flush()
		ch.vi.Flush()
	case !g.dirty:
		g.dirty = true
		list := &ch.way.gathering[ch.side]
		*list = append(*list, ch)
	}
}

// overdue reports, at some messages, whether the first of those that wait has
// waited for long: whoever sends them does something else in between.
func (ch *viChannel) overdue() bool {
	g := &ch.gathered
	n := len(g.waiting)
	if n == 1 {
		g.since = ch.way.nic.Now()
	}
	return n >= gatherLook && n&(n-1) == 0 && ch.way.nic.Now()-g.since > gatherTime
}

// flush sends what was gathered.
func (ch *viChannel) flush() {
	g := &ch.gathered
	ch.way.node.gathered[ch.side] -= len(g.waiting)
	if len(g.waiting) > 1 {
		if e := ch.envelope(); e != nil {
			ch.fill(e)
			return
		}
	}
	for _, i := range g.waiting {
		ch.launch(&ch.sends[i])
	}
	g.waiting, g.bytes = g.waiting[:0], 0
}

// envelope returns one that is idle, or nil.
func (ch *viChannel) envelope() *viSend {
	for i := range ch.envelopes {
		if e := &ch.envelopes[i]; !e.busy {
			return e
		}
	}
	return nil
}

// fill puts what was gathered into an envelope and sends that.
func (ch *viChannel) fill(e *viSend) {
	g := &ch.gathered
	at, last := 0, 0
	var tags *[tagsSize]byte // of the last message that carried some
	for _, i := range g.waiting {
		x := &ch.sends[i]
		last = at
		n := join(e.mem[at:], x.mem[:x.n], &tags)
		binary.LittleEndian.PutUint16(e.mem[at+lengthAt:], uint16(n))
		e.n = at + n
		at += rounded(n)
	}
	binary.LittleEndian.PutUint16(e.mem[last+lengthAt:], 0)
	e.busy = true
	e.members, g.waiting = g.waiting, e.members[:0]
	g.bytes = 0
	ch.launch(e)
}

// join copies a message behind others and returns its length there. Its tags stay
// away if they are those that came last.
func join(dst, m []byte, last **[tagsSize]byte) int {
	if !kind(m[0]).tagged() {
		return copy(dst, m)
	}
	tags := (*[tagsSize]byte)(m[baseSize:])
	if *last == nil || *tags != **last {
		*last = tags
		return copy(dst, m)
	}
	n := copy(dst, m[:baseSize])
	dst[0] |= sameTags
	return n + copy(dst[n:], m[baseSize+tagsSize:])
}

// launch posts a send.
func (ch *viChannel) launch(x *viSend) {
	if ch.broken || ch.closed {
		return
	}
	x.segs[0].Data = x.mem[:x.n]
	ch.gathered.flying++
	ch.way.flying++
	ch.posted(ch.vi.PostSend(&x.desc))
}

// landed hears that a send has completed.
func (ch *viChannel) landed(x *viSend) {
	x.busy = false
	for _, i := range x.members {
		ch.sends[i].busy = false
	}
	x.members = x.members[:0]
	ch.way.flying--
	ch.gathered.flying--
	ch.up.sent()
}

// flush sends what the channels of one side have gathered.
func (w *viWay) flush(side side) {
	list := w.gathering[side]
	for i, ch := range list {
		list[i] = nil
		ch.gathered.dirty = false
		ch.flush()
	}
	w.gathering[side] = list[:0]
}

// alone is arrived for a VI message that is all that has arrived. It returns how
// many messages were handled at once.
func (ch *viChannel) alone(x *viReceive, b *Bundle) int {
	m := x.mem[:x.desc.Length]
	if len(m) < baseSize || binary.LittleEndian.Uint16(m[lengthAt:]) != 0 {
		ch.arrived(x)
		return 0
	}
	p := ch.way.packet()
	body, ok := p.head.parse(m, nil)
	if !ok {
		ch.way.spare.push(p)
		ch.arrived(x) // which counts it
		return 0
	}
	x.held = 1
	p.body, p.home = body, x
	if ch.up.alone(p, b) {
		return 1
	}
	ch.up.received(p)
	return 0
}

// arrived hands on the messages of a VI message. x stays held meanwhile.
func (ch *viChannel) arrived(x *viReceive) {
	x.held = 1
	var last lastTags
	b := x.mem[:x.desc.Length]
	for n := 1; n <= gatherMost && len(b) > 0; n++ {
		m, rest, ok := splitNext(b)
		if !ok {
			break
		}
		b = rest
		p := ch.way.packet()
		body, ok := p.head.parse(m, &last)
		if !ok {
			ch.way.spare.push(p)
			ch.way.node.stats.Strays++
			continue
		}
		p.body, p.home = body, x
		x.held++
		if ch.up.received(p); ch.closed || ch.broken {
			return
		}
	}
	if len(b) > 0 {
		ch.way.node.stats.Strays++
	}
	ch.unhold(x)
}

// splitNext cuts the first message off the messages b. It reports false for what
// no version of this package sends.
func splitNext(b []byte) (m, rest []byte, ok bool) {
	if len(b) < baseSize {
		return nil, nil, false
	}
	n := int(binary.LittleEndian.Uint16(b[lengthAt:]))
	switch {
	case n == 0:
		return b, nil, true
	case n < baseSize || rounded(n) > len(b)-baseSize:
		return nil, nil, false
	}
	return b[:n:n], b[rounded(n):], true
}

// release is channel's.
func (ch *viChannel) release(p *packet) {
	x := p.home.(*viReceive)
	p.body, p.home = nil, nil // the connection may end before p is used again
	ch.way.spare.push(p)
	ch.unhold(x)
}

// unhold posts a receive again that nobody needs any more: not at once, because
// whoever has got a message is about to answer, but when the next one is
// released, or by catchUp. That is why there is one receive more than receives
// says.
func (ch *viChannel) unhold(x *viReceive) {
	if x.held--; x.held > 0 {
		return
	}
	if ch.late == nil {
		ch.way.late = append(ch.way.late, ch)
	}
	ch.repost()
	ch.late = x
}

// repost posts the receive that is late.
func (ch *viChannel) repost() {
	if ch.late != nil && !ch.broken && !ch.closed {
		ch.posted(ch.vi.PostRecv(&ch.late.desc))
	}
	ch.late = nil
}

// catchUp is provider's.
func (w *viWay) catchUp() {
	for i, ch := range w.late {
		w.late[i] = nil
		ch.repost()
	}
	w.late = w.late[:0]
}

// packet returns one that is not in use.
func (w *viWay) packet() *packet {
	if p := w.spare.pop(); p != nil {
		return p
	}
	return &packet{}
}
