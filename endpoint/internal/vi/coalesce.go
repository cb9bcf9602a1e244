package vi

import (
	"encoding/binary"

	"github.com/bobnet-go/bobnet/endpoint/internal/provider"
	"github.com/bobnet-go/bobnet/endpoint/internal/wire"
)

// Which coalescing does what
//
// Messages are coalesced at three levels, each of which saves what the one below it
// cannot:
//
//   - An envelope (this file) is one VI message of up to envelopeSize bytes, into which
//     short messages are copied. It saves a message of the VI for each of them: a
//     descriptor, a receive and two completions.
//   - A batch (batch.go) is one RDMA write of up to a long frame, whose payloads go from
//     where they lie into memory of the server, where they are handled. It saves the
//     same for payloads, and their second copy.
//   - Package vipl puts several VI messages into one frame (vipl/internal/conn/pack.go), whoever has
//     posted them. It saves frames, and nothing of what a VI message costs.
//
// A message that may share an envelope or a batch is corked until there are enough. Which
// may be, and with how many others, is for the halves to say: the requests of a client
// that has others under way, and the answers to those. So corking costs those nothing
// that come one by one. What is corked goes when it is that many, when it fills its
// envelope or batch, when it has been corked for corkTime and another comes, and else by
// flush: when some handlers have run, when the caller polls or waits, and when its
// requests come so slowly that each is sent with a look at what has arrived.
//
// The receiver hands the messages on one by one. Its buffer is posted again when
// the last of them has been released. So every buffer that is not posted holds
// a message that has not been handled, but for the one whose handler is running,
// and the reasoning of endpoint/slot.go holds as if each had a buffer to itself.
const (
	envelopeSize = 4000   // bytes of messages in an envelope
	corkLook     = 4      // at so many messages, four times as many, and so on, the clock is read
	corkTime     = 50_000 // ns that a message may wait for others to be sent
	numEnvelopes = 4      // of a channel; when all are under way messages go one by one
)

// corking is what a channel knows of its corked messages.
type corking struct {
	waiting []int // send buffers, in the order of posting
	load    load  // that they make, unless stuck
	since   int64 // when the first of them was posted
	look    int   // how many there are when the clock is read next
	flying  int   // VI messages under way
	dirty   bool  // the channel is in Provider.corked
	stuck   bool  // they wait for a window
}

// load is what some messages make of the VI message that they share.
type load struct {
	count  int
	copied int // bytes of those that are copied, before tags are left out

	// Where there may be batches:
	bytes   int
	pieces  int  // segments
	copying bool // the last message is copied
	inPlace bool // some stay in place, which takes a batch
	last    int  // send buffer that does
}

// add adds the message in send buffer i. It reports false if there is no room for
// it.
func (ch *channel) add(l *load, i int) bool {
	n := wire.Rounded(ch.sends[i].n)
	switch {
	case l.count == provider.CoalesceMost:
		return false
	case ch.batching.open():
		return ch.addToBatch(l, i, n)
	case l.copied+n > ch.room:
		return false
	}
	l.count++
	l.copied += n
	return true
}

// addToBatch is add where there may be batches.
func (ch *channel) addToBatch(l *load, i, n int) bool {
	copying := ch.copies(l.copied, n)
	pieces := l.pieces + 1
	switch {
	case copying && l.copying: // to the same piece
		pieces--
	case copying:
	case n <= ch.room/2 && !l.inPlace:
		return false // what is short goes with the next envelope
	case l.inPlace && !l.copying && ch.adjoins(l.last, i):
		pieces--
		n += len(ch.sends[l.last].mem) - wire.Rounded(ch.sends[l.last].n)
	}
	if l.bytes+n > BatchSize || pieces > piecesMost {
		return false
	}
	if copying {
		l.copied += n
	} else {
		l.inPlace, l.last = true, i
	}
	l.count++
	l.bytes += n
	l.pieces, l.copying = pieces, copying
	return true
}

// copies reports whether a message that takes n bytes is copied to a batch behind so
// many that have been.
func (ch *channel) copies(copied, n int) bool { return n <= ch.room/2 && copied+n <= ch.room }

// Post is channel's. A message is sent from its buffer, or copied to an envelope
// with others; either way the buffer is idle when the peer's interface has it.
func (ch *channel) Post(i, n, together int) {
	if ch.broken || ch.closed {
		return
	}
	x := &ch.sends[i]
	x.n, x.busy = n, true
	g := &ch.corking
	if !g.stuck && len(g.waiting) > 0 && !ch.add(&g.load, i) {
		ch.flush()
	}
	if len(g.waiting) == 0 && !ch.corks(i, together) {
		ch.launch(x)
		if together == provider.Uncork {
			ch.vi.Flush()
		}
		return
	}
	g.waiting = append(g.waiting, i)
	ch.way.count[ch.side]++
	switch {
	case g.stuck:
	case together != provider.Uncork && len(g.waiting) >= together:
		ch.flush()
	case together == provider.Uncork || ch.overdue():
		ch.flush()
		ch.vi.Flush()
	default:
		ch.flushLater()
	}
}

// corks reports whether the message in send buffer i, before which nothing waits, is
// corked, as one of so many.
func (ch *channel) corks(i, together int) bool {
	g := &ch.corking
	most := ch.room
	if ch.batching.open() {
		most = BatchSize
	}
	if g.load = (load{}); together < 2 {
		return false
	}
	if wire.Rounded(ch.sends[i].n) > most/2 {
		ch.ask()
		return false
	}
	return ch.add(&g.load, i)
}

// flushLater has the provider flush the channel.
func (ch *channel) flushLater() {
	if g := &ch.corking; !g.dirty {
		g.dirty = true
		list := &ch.way.corked[ch.side]
		*list = append(*list, ch)
	}
}

// overdue reports, at some messages, whether the first of those that wait has
// waited for long: whoever sends them does something else in between.
func (ch *channel) overdue() bool {
	g := &ch.corking
	switch n := len(g.waiting); {
	case n == 1:
		g.since, g.look = ch.way.NIC.Now(), corkLook
	case n >= g.look:
		g.look *= corkLook
		return ch.way.NIC.Now()-g.since > corkTime
	}
	return false
}

// flush sends what is corked, unless it has to wait for a window.
func (ch *channel) flush() {
	if g := &ch.corking; len(g.waiting) > 0 && !g.stuck {
		ch.send(&g.load)
	}
}

// resume goes on with what is stuck, when a window may have become free: with what
// fills VI messages. The rest stays corked.
func (ch *channel) resume() {
	g := &ch.corking
	for g.stuck {
		g.load = load{}
		for g.load.count < len(g.waiting) && ch.add(&g.load, g.waiting[g.load.count]) {
		}
		if g.load.count == len(g.waiting) && ch.mayBatch() {
			g.stuck = false
			ch.flushLater()
			return
		}
		g.load.count = max(g.load.count, 1) // one that is longer than a batch
		if ch.send(&g.load); g.stuck {
			return
		}
		g.stuck = len(g.waiting) > 0
	}
}

// send sends the messages of l, the first that wait. If they have to wait for a
// window, they are stuck, and so are all behind them.
func (ch *channel) send(l *load) {
	g := &ch.corking
	if g.stuck = !ch.sendFirst(l); g.stuck {
		return
	}
	ch.way.count[ch.side] -= l.count
	g.waiting = g.waiting[:copy(g.waiting, g.waiting[l.count:])]
}

// sendFirst is send. It reports false if they have to wait for a window, as all do
// while there is none.
func (ch *channel) sendFirst(l *load) bool {
	if !ch.mayBatch() {
		return false
	}
	first := ch.corking.waiting[:l.count]
	if l.count > 1 {
		if l.inPlace {
			ch.batch(l.count)
			return true
		}
		if e := ch.envelope(); e != nil {
			ch.fill(e, first)
			return true
		}
	}
	for _, i := range first {
		ch.launch(&ch.sends[i])
	}
	return true
}

// envelope returns one that is idle, or nil.
func (ch *channel) envelope() *sendBuffer {
	for i := range ch.envelopes {
		if e := &ch.envelopes[i]; !e.busy {
			return e
		}
	}
	return nil
}

// fill puts messages into an envelope and sends that.
func (ch *channel) fill(e *sendBuffer, messages []int) {
	var tags *[wire.TagsSize]byte // of the last message that carried some
	e.n = 0
	e.members = append(e.members[:0], messages...)
	for left := len(messages) - 1; left >= 0; left-- {
		x := &ch.sends[messages[len(messages)-1-left]]
		e.n += wire.Follow(e.mem[e.n:], wire.Join(e.mem[e.n:], x.mem[:x.n], &tags), left)
	}
	e.busy = true
	ch.launch(e)
}

// launch posts a send.
func (ch *channel) launch(x *sendBuffer) {
	if ch.broken || ch.closed {
		return
	}
	x.segs[0].Data = x.mem[:x.n]
	ch.start(x)
}

// start posts a send whose segments are set.
func (ch *channel) start(x *sendBuffer) {
	ch.corking.flying++
	ch.way.flying++
	ch.posted(ch.vi.PostSend(&x.desc))
}

// landed hears that a send has completed.
func (ch *channel) landed(x *sendBuffer) {
	x.busy = false
	for _, i := range x.members {
		ch.sends[i].busy = false
	}
	x.members = x.members[:0]
	ch.way.flying--
	ch.corking.flying--
	ch.up.Sent()
	ch.resume()
}

// Flush sends what is corked on the channels of one side.
func (w *Provider) Flush(side wire.Side) {
	list := w.corked[side]
	for i, ch := range list {
		list[i] = nil
		ch.corking.dirty = false
		ch.flush()
	}
	w.corked[side] = list[:0]
}

// arrivedAlone is arrived for a VI message that is the only completion. It reports whether the
// half handled the message at once.
func (ch *channel) arrivedAlone(x *receiveBuffer) (handled bool) {
	m := x.mem[:x.desc.Length]
	if len(m) < wire.BaseSize || binary.LittleEndian.Uint16(m[wire.LengthAt:]) != 0 {
		ch.arrived(x, len(m))
		return false
	}
	p := ch.way.packet()
	body, ok := p.Head.Parse(m, nil)
	if !ok || p.Head.Kind.Own() {
		ch.way.spare.Push(p)
		ch.arrived(x, len(m)) // which counts it
		return false
	}
	x.refs = 1
	p.Body, p.Home = body, x
	ch.heard(int(p.Head.Slot))
	ch.landing.handled(int(p.Head.Slot))
	if p.Head.Kind.Announces() {
		ch.announced(p.Head.Length)
	}
	if ch.up.HandleNow(p) {
		return true
	}
	ch.up.Received(p)
	return false
}

// arrived hands on the messages of a VI message of so many bytes. x stays in
// use meanwhile.
func (ch *channel) arrived(x *receiveBuffer, length int) {
	x.refs = 1
	var last wire.LastTags
	b, waits := x.mem[:length], ch.batching.open()
	for n := 1; n <= provider.CoalesceMost && len(b) > 0; n++ {
		m, rest, ok := wire.SplitNext(b, ch.full)
		if !ok {
			break
		}
		b = rest
		p := ch.way.packet()
		body, ok := p.Head.Parse(m, &last)
		if !ok || p.Head.Kind.Own() {
			ch.way.spare.Push(p)
			ch.noted(ok, &p.Head, body)
			continue
		}
		p.Body, p.Home = body, x
		x.refs++
		if waits {
			ch.heard(int(p.Head.Slot))
		}
		ch.landing.handled(int(p.Head.Slot))
		if p.Head.Kind.Announces() {
			ch.announced(p.Head.Length)
		}
		if ch.up.Received(p); ch.closed || ch.broken {
			return
		}
	}
	if len(b) > 0 {
		ch.way.up.Stray()
	}
	ch.unuse(x)
}

// noted takes a message that is the channel's own, or none at all.
func (ch *channel) noted(ok bool, h *wire.Header, body []byte) {
	switch {
	case !ok:
		ch.way.up.Stray()
	case h.Kind == wire.KindAsk:
		ch.asked()
	case h.Kind == wire.KindLanding:
		ch.mayLand(h.Payload(body))
	default:
		ch.opened(h.Payload(body))
	}
}

// Release is channel's.
func (ch *channel) Release(p *provider.Packet) {
	x := p.Home.(*receiveBuffer)
	p.Body, p.Home, p.Landed = nil, nil, false // the connection may end before p is used again
	ch.way.spare.Push(p)
	ch.unuse(x)
}

// unuse posts a receive again that nobody needs any more: not at once, because
// whoever has got a message is about to answer, but when the next one is
// released, or by catchUp. That is why there is one receive more than receives
// says.
func (ch *channel) unuse(x *receiveBuffer) {
	if x.refs--; x.refs > 0 {
		return
	}
	if x.window != 0 {
		ch.reopen(x)
		return
	}
	if x.lands {
		return
	}
	if ch.late == nil {
		ch.way.late = append(ch.way.late, ch)
	}
	ch.repost()
	ch.late = x
}

// repost posts the receive that is late.
func (ch *channel) repost() {
	if ch.late != nil && !ch.broken && !ch.closed {
		ch.posted(ch.vi.PostRecv(&ch.late.desc))
	}
	ch.late = nil
}

// CatchUp is provider's.
func (w *Provider) CatchUp() {
	for i, ch := range w.late {
		w.late[i] = nil
		ch.repost()
	}
	w.late = w.late[:0]
}

// packet returns one that is not in use.
func (w *Provider) packet() *provider.Packet {
	if p := w.spare.Pop(); p != nil {
		return p
	}
	return &provider.Packet{}
}
