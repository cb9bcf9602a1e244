package endpoint

import (
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/vipl"
)

// Batches: payloads that fill a frame together.
//
// Requests with payloads that come in a stream go together, as many as a long
// frame holds, in one RDMA write with immediate data: gathered from their send
// buffers, and placed by the server's interface in a window that holds them all.
// So each costs neither side a VI message of its own, nor the server a second copy.
//
// A client asks for windows when it first could have used one, and the server opens
// them, in memory that counts towards Config.MaxConnectionMemory. It closes a window
// when it has been written, so that nobody changes what a handler looks at, and
// opens it again when the last of its messages has been released.
//
// The client hears nothing of that, and need not. Its server handles requests in
// their order. So when the last request of a batch is answered, all messages before
// it have been released, and all batches before this one; what may still be open is
// the handler that has just answered. With a window more than there are batches
// unanswered, written in turn, the one that is next has been opened. While there is
// none, everything behind waits, which costs nothing: the server has enough to do. A
// batch takes a receive, for its immediate data, and carries a request at least, of
// which there are no more than receives: slot.go.
//
// Messages that nobody follows go as ever, so nothing waits for a window that came
// alone, and those that are short still share envelopes.

// batchSize is what a long frame holds of an RDMA write.
const batchSize = (ethertype.LongMTU - ethertype.BaseSize - ethertype.RDMASize) &^ 3

// batchesMost bounds the batches that are unanswered: what they hold should stay in a
// cache.
const batchesMost = 8

// batches returns how many batches a client of the shape may have unanswered. They
// hold no more than its credits do; 0 if that is too little to fill some.
func (s shape) batches() int {
	if n := s.slots * s.full() / batchSize; n > 1 {
		return min(n, batchesMost)
	}
	return 0
}

// notes returns how many messages each side of a channel gets about windows, beside
// those of its slots.
func (s shape) notes() int { return min(s.batches(), 1) }

// windowMemory returns the bytes of a server's windows.
func (s shape) windowMemory() int { return s.notes() * (s.batches() + 1) * batchSize }

// piecesMost bounds the pieces of a batch.
const piecesMost = vipl.MaxSegments

// noteSize is the length of the longest message about windows.
const noteSize = baseSize + (batchesMost+1)*windowSize

// batching is what one end of a channel has for batches.
type batching struct {
	most int         // unanswered; 0: the channel has none
	note viSend      // asks for windows, or tells of them
	told bool        // it has been sent
	in   []viReceive // the server's windows

	// Of the client, when the windows are open:
	out    []viBatch
	slab   vipl.MemHandle // of what is copied into them
	next   int            // of out
	credit int            // batches that may be sent before another is answered
	ends   []bool         // by slot: its request is the last of a batch
}

// viBatch is a batch, and the window that it goes to.
type viBatch struct {
	viSend
	many [piecesMost]vipl.Segment
}

// open reports whether batches may be sent.
func (b *batching) open() bool { return len(b.out) > 0 }

// ask asks the server for windows, once.
func (ch *viChannel) ask() {
	b := &ch.batching
	if b.most == 0 || b.told || ch.side != asking {
		return
	}
	b.told = true
	b.note.n = (&header{kind: kindAsk}).put(b.note.mem)
	b.note.busy = true
	ch.launch(&b.note)
}

// asked opens windows, if there is memory for them, and tells the client where.
func (ch *viChannel) asked() {
	b, n := &ch.batching, ch.way.node
	if ch.side != serving || b.most == 0 || b.told {
		n.stats.Strays++
		return
	}
	b.told = true
	count := b.most + 1
	if count*batchSize > n.cfg.MaxConnectionMemory-n.taken {
		return
	}
	mem := make([]byte, count*batchSize)
	b.in = make([]viReceive, 0, count)
	at := (&header{kind: kindWindows}).put(b.note.mem)
	for range count {
		x := viReceive{mem: mem[:batchSize:batchSize]}
		mem = mem[batchSize:]
		var err error
		if x.window, err = ch.way.nic.RegisterMem(x.mem, &vipl.MemAttributes{Ptag: ch.ptag, EnableRDMAWrite: true}); err != nil {
			break // it goes without, or with fewer
		}
		b.in = append(b.in, x)
		window{vipl.VirtualAddress(x.mem), uint32(x.window)}.put(b.note.mem[at:])
		at += windowSize
	}
	n.taken += len(b.in) * batchSize
	b.note.n, b.note.busy = at, true
	ch.launch(&b.note)
}

// opened hears where the server's windows are.
func (ch *viChannel) opened(list []byte) {
	b := &ch.batching
	count := len(list) / windowSize
	if ch.side != asking || !b.told || b.open() || len(list)%windowSize != 0 || count < 2 || count > b.most+1 {
		ch.way.node.stats.Strays++
		return
	}
	mem := make([]byte, count*ch.room)
	slab, err := ch.way.nic.RegisterMem(mem, &vipl.MemAttributes{Ptag: ch.ptag})
	if err != nil {
		return // it goes without
	}
	ch.flush() // what comes from now on is counted otherwise
	b.slab, b.credit, b.ends = slab, count-1, make([]bool, len(ch.windows))
	b.out = make([]viBatch, count)
	for i := range b.out {
		x := &b.out[i]
		var w window
		w.parse(list[i*windowSize:])
		x.mem = mem[i*ch.room:][:ch.room:ch.room]
		x.desc.Op, x.desc.HasImmediate, x.desc.Immediate = vipl.OpRDMAWrite, true, uint32(len(ch.windows)+i)
		x.desc.Unordered = true // until it has been answered, nothing else goes to its window
		x.desc.Remote = vipl.RemoteSegment{Addr: w.addr, Handle: vipl.MemHandle(w.handle)}
		x.desc.Context = &x.viSend
	}
}

// mayBatch reports whether there is a window for the next batch, or there are none
// at all.
func (ch *viChannel) mayBatch() bool {
	b := &ch.batching
	// One may have been answered before the provider knows that it arrived.
	return !b.open() || b.credit > 0 && !b.out[b.next].busy
}

// batch sends so many of the messages that wait.
func (ch *viChannel) batch(count int) {
	b := &ch.batching
	x := &b.out[b.next]
	if b.next++; b.next == len(b.out) {
		b.next = 0
	}
	b.credit--
	x.busy = true
	x.members = append(x.members[:0], ch.corking.waiting[:count]...)
	for k := count - 1; ; k-- {
		if i := x.members[k]; i < len(b.ends) { // else it is no request, and handled out of order
			b.ends[i] = true
			break
		}
	}
	ch.compose(x)
	ch.start(&x.viSend)
}

// adjoins reports whether the message in send buffer i makes one piece with the one
// in buffer last, which costs less than to send what is between them, unless that is
// much.
func (ch *viChannel) adjoins(last, i int) bool {
	x := &ch.sends[last]
	return i == last+1 && len(x.mem) == ch.full && x.n >= ch.full-ch.full/4
}

// compose makes the segments of a batch: pieces of messages that are copied, as
// load says, and those between them where they lie, with their neighbours.
func (ch *viChannel) compose(x *viBatch) {
	segs := x.many[:0]
	var tags *[tagsSize]byte // of the last message that carried some
	from, at, copied, left := 0, 0, 0, len(x.members)
	first, last := 0, -1 // of the piece in place that is being made
	for _, i := range x.members {
		s := &ch.sends[i]
		left--
		if room := rounded(s.n); ch.copies(copied, room) {
			copied += room
			at += follow(x.mem[at:], join(x.mem[at:], s.mem[:s.n], &tags), left)
			last = -1
			continue
		}
		if from < at {
			segs = append(segs, vipl.Segment{Data: x.mem[from:at], Handle: ch.batching.slab})
			from = at
		}
		if kind(s.mem[0]).tagged() {
			tags = (*[tagsSize]byte)(s.mem[baseSize:])
		}
		n := follow(s.mem, s.n, left)
		if last >= 0 && ch.adjoins(last, i) {
			ch.sends[last].mem[0] |= spaced
			piece := &segs[len(segs)-1]
			piece.Data = piece.Data[:(i-first)*ch.full+n]
		} else {
			segs = append(segs, vipl.Segment{Data: s.mem[:n], Handle: ch.slab})
			first = i
		}
		last = i
	}
	if from < at {
		segs = append(segs, vipl.Segment{Data: x.mem[from:at], Handle: ch.batching.slab})
	}
	x.desc.Segs = segs
}

// heard hears that the server has answered in a slot.
func (ch *viChannel) heard(slot int) {
	b := &ch.batching
	if slot < len(b.ends) && b.ends[slot] {
		b.ends[slot] = false
		b.credit++
		ch.resume()
	}
}

// batched hears that the client says to have written a batch.
func (ch *viChannel) batched(i int64, length int) {
	b := &ch.batching
	if i >= int64(len(b.in)) || b.in[i].refs > 0 || length > batchSize {
		ch.way.node.stats.Strays++
		return
	}
	x := &b.in[i]
	if err := ch.way.nic.SetMemAttributes(x.window, &vipl.MemAttributes{Ptag: ch.ptag}); err != nil {
		ch.posted(err)
		return
	}
	ch.arrived(x, length)
}

// reopen opens a window whose messages have all been released.
func (ch *viChannel) reopen(x *viReceive) {
	if !ch.broken && !ch.closed {
		ch.posted(ch.way.nic.SetMemAttributes(x.window, &vipl.MemAttributes{Ptag: ch.ptag, EnableRDMAWrite: true}))
	}
}

// close gives the memory back. Nothing is posted any more.
func (b *batching) close(w *viWay) {
	w.node.taken -= len(b.in) * batchSize
	for i := range b.in {
		w.nic.DeregisterMem(b.in[i].window)
	}
	if b.slab != 0 {
		w.nic.DeregisterMem(b.slab)
	}
}
