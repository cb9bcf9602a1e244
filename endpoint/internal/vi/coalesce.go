package vi

import (
	"encoding/binary"

	"github.com/bobnet-go/bobnet/endpoint/internal/provider"
	"github.com/bobnet-go/bobnet/endpoint/internal/wire"
)

// The levels of coalescing
//
// Messages are coalesced at three levels. Each saves what the level below it cannot save:
//
//   - An envelope (this file) is one VI message of up to envelopeSize bytes, into which short
//     messages are copied. It saves a VI message for each of them: a descriptor, a receive and two
//     completions.
//   - A batch (batch.go) is one RDMA write of up to a long frame. Its payloads go directly from the
//     send buffers into memory of the server, where they are handled. It saves the same for
//     payloads, and their second copy.
//   - Package vipl puts several VI messages into one frame (vipl/internal/conn/pack.go), even those
//     of different VIs. It saves frames, but none of the cost of a VI message.
//
// A message that may share an envelope or a batch is corked until enough messages wait. The halves
// decide which messages may be corked, and with how many others: the requests of a client that has
// other requests in flight, and the answers to those. So corking costs messages that come one by
// one nothing. The channel sends the corked messages when their number suffices, when they fill an
// envelope or batch, when they have been corked for corkTime and another message comes, and
// otherwise on flush: when some handlers have run, when the caller polls or waits, and when
// requests come so slowly that the node looks at the arrived messages before each of them.
//
// The receiver hands the messages on one by one. It posts the buffer again when the last of them
// has been released. So every buffer that is not posted holds a message that has not been handled,
// except the one whose handler is running, and the reasoning of endpoint/slot.go holds as if each
// message had a buffer of its own.
const (
	envelopeSize = 4000   // bytes of messages in an envelope
	corkLook     = 4      // number of messages at which the clock is read; it is read again at 4 and 16 times as many, and so on
	corkTime     = 50_000 // ns that a message may wait for other messages
	numEnvelopes = 4      // of a channel; when all are in use, messages are sent one by one
)

// corking is the state of a channel's corked messages.
type corking struct {
	waiting []int // send buffers, in the order of posting
	load    load  // of the waiting messages, unless stuck
	since   int64 // when the first of them was posted
	look    int   // number of waiting messages at which the clock is read next
	flying  int   // VI messages in flight
	dirty   bool  // the channel is in Provider.corked
	stuck   bool  // the messages wait for a window
}

// load describes the VI message that some messages would share.
type load struct {
	count  int
	copied int // bytes of the copied messages, before repeated tags are left out

	// If the channel has batches:
	bytes   int
	pieces  int  // segments
	copying bool // the last message is copied
	inPlace bool // some messages are sent in place, which requires a batch
	last    int  // send buffer of the last of those
}

// addMessage adds the message in send buffer i, and reports whether it fits.
func (ch *channel) addMessage(l *load, i int) bool {
	n := wire.Rounded(ch.sends[i].n)
	switch {
	case l.count == provider.CoalesceMost:
		return false
	case ch.batching.enabled():
		return ch.addToBatch(l, i, n)
	case l.copied+n > ch.room:
		return false
	}
	l.count++
	l.copied += n
	return true
}

// addToBatch is add for a channel with batches.
func (ch *channel) addToBatch(l *load, i, n int) bool {
	copying := ch.copies(l.copied, n)
	pieces := l.pieces + 1
	switch {
	case copying && l.copying: // into the same piece
		pieces--
	case copying:
	case n <= ch.room/2 && !l.inPlace:
		return false // short messages wait for the next envelope
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

// copies reports whether a message of n bytes is copied to a batch to which copied bytes have been
// copied already.
func (ch *channel) copies(copied, n int) bool { return n <= ch.room/2 && copied+n <= ch.room }

// Post implements provider.Channel. A message is sent from its buffer, or copied to an envelope
// with others. In either case the buffer is idle when the peer's interface has received the
// message.
func (ch *channel) Post(i, n, together int) {
	if ch.broken || ch.closed {
		return
	}
	x := &ch.sends[i]
	x.n, x.busy = n, true
	g := &ch.corking
	if !g.stuck && len(g.waiting) > 0 && !ch.addMessage(&g.load, i) {
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

// corks decides whether to cork the message in send buffer i when no other message is corked, and
// reports the decision. together is the number of messages that may be sent together.
func (ch *channel) corks(i, together int) bool {
	g := &ch.corking
	most := ch.room
	if ch.batching.enabled() {
		most = BatchSize
	}
	if g.load = (load{}); together < 2 {
		return false
	}
	if wire.Rounded(ch.sends[i].n) > most/2 {
		ch.ask()
		return false
	}
	return ch.addMessage(&g.load, i)
}

// flushLater puts the channel on the list of those that the provider flushes.
func (ch *channel) flushLater() {
	if g := &ch.corking; !g.dirty {
		g.dirty = true
		list := &ch.way.corked[ch.side]
		*list = append(*list, ch)
	}
}

// overdue reports whether the first of the waiting messages has waited longer than corkTime, which
// means that the sender does something else in between. It checks only at some message counts.
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

// flush sends the corked messages, unless they have to wait for a window.
func (ch *channel) flush() {
	if g := &ch.corking; len(g.waiting) > 0 && !g.stuck {
		ch.send(&g.load)
	}
}

// resume sends stuck messages when a window may have become free, as far as they fill VI messages.
// The rest stays corked.
func (ch *channel) resume() {
	g := &ch.corking
	for g.stuck {
		g.load = load{}
		for g.load.count < len(g.waiting) && ch.addMessage(&g.load, g.waiting[g.load.count]) {
		}
		if g.load.count == len(g.waiting) && ch.mayBatch() {
			g.stuck = false
			ch.flushLater()
			return
		}
		g.load.count = max(g.load.count, 1) // a message that is longer than a batch
		if ch.send(&g.load); g.stuck {
			return
		}
		g.stuck = len(g.waiting) > 0
	}
}

// send sends the messages of l, the first of those that wait. If they have to wait for a window,
// they and all later messages are stuck.
func (ch *channel) send(l *load) {
	g := &ch.corking
	if g.stuck = !ch.sendFirst(l); g.stuck {
		return
	}
	ch.way.count[ch.side] -= l.count
	g.waiting = g.waiting[:copy(g.waiting, g.waiting[l.count:])]
}

// sendFirst does the work of send. It reports false if the messages have to wait for a window.
// While there is none, all messages wait, to keep their order.
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

// envelope returns an idle envelope, or nil.
func (ch *channel) envelope() *sendBuffer {
	for i := range ch.envelopes {
		if e := &ch.envelopes[i]; !e.busy {
			return e
		}
	}
	return nil
}

// fill copies messages to an envelope and sends it.
func (ch *channel) fill(e *sendBuffer, messages []int) {
	var tags *[wire.TagsSize]byte // of the last message that carried tags
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
	ch.postSend(x)
}

// postSend posts a send whose segments have been set.
func (ch *channel) postSend(x *sendBuffer) {
	ch.corking.flying++
	ch.way.flying++
	ch.posted(ch.vi.PostSend(&x.desc))
}

// landed handles the completion of a send.
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

// Flush sends the corked messages on the channels of one side.
func (w *Provider) Flush(side wire.Side) {
	list := w.corked[side]
	for i, ch := range list {
		list[i] = nil
		ch.corking.dirty = false
		ch.flush()
	}
	w.corked[side] = list[:0]
}

// arrivedAlone is arrived for a VI message that is the only completion. It reports whether the half
// handled the message at once.
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
		ch.arrived(x, len(m)) // arrived handles the channel's own messages, and counts malformed ones
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

// arrived passes on the messages in a VI message of length bytes. x stays in use meanwhile.
func (ch *channel) arrived(x *receiveBuffer, length int) {
	x.refs = 1
	var last wire.LastTags
	b, waits := x.mem[:length], ch.batching.enabled()
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

// noted handles a message for the channel itself, or counts a malformed one.
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

// Release implements provider.Channel.
func (ch *channel) Release(p *provider.Packet) {
	x := p.Home.(*receiveBuffer)
	p.Body, p.Home, p.Landed = nil, nil, false // the connection may end before p is used again
	ch.way.spare.Push(p)
	ch.unuse(x)
}

// unuse posts a receive again when no message in its buffer is in use. It does not post it at once,
// because the goroutine that got a message is about to answer, but when the next receive is
// released, or in CatchUp. That is why there is one receive more than Shape.Receives returns.
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

// repost posts the late receive.
func (ch *channel) repost() {
	if ch.late != nil && !ch.broken && !ch.closed {
		ch.posted(ch.vi.PostRecv(&ch.late.desc))
	}
	ch.late = nil
}

// CatchUp implements provider.Provider.
func (w *Provider) CatchUp() {
	for i, ch := range w.late {
		w.late[i] = nil
		ch.repost()
	}
	w.late = w.late[:0]
}

// packet returns an unused packet.
func (w *Provider) packet() *provider.Packet {
	if p := w.spare.Pop(); p != nil {
		return p
	}
	return &provider.Packet{}
}
