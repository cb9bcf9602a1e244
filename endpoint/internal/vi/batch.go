package vi

import (
	"github.com/bobnet-go/bobnet/endpoint/internal/wire"
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/framing"
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
// them, in memory of the budget. It closes a window
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
// which there are no more than receives (endpoint/slot.go).
//
// Messages that nobody follows go as ever, so nothing waits for a window that came
// alone, and those that are short still share envelopes.

// BatchSize is what a long frame holds of an RDMA write.
const BatchSize = (framing.LongMTU - ethertype.BaseSize - ethertype.RDMASize) &^ 3

// batchesMost bounds the batches that are unanswered: what they hold should stay in a
// cache.
const batchesMost = 8

// Batches returns how many batches a client of the shape may have unanswered. They
// hold no more than its credits do; 0 if that is too little to fill some.
func Batches(s wire.Shape) int {
	if n := s.Slots * s.Full() / BatchSize; n > 1 {
		return min(n, batchesMost)
	}
	return 0
}

// notes returns how many messages each side of a channel gets about windows, beside
// those of its slots.
func notes(s wire.Shape) int { return min(Batches(s), 1) }

// WindowMemory returns the bytes of a server's windows.
func windowMemory(s wire.Shape) int { return notes(s) * (Batches(s) + 1) * BatchSize }

// piecesMost bounds the pieces of a batch.
const piecesMost = vipl.MaxSegments

// noteSize is the length of the longest message about windows.
const noteSize = wire.BaseSize + (batchesMost+1)*wire.WindowSize

// batching is what one end of a channel has for batches.
type batching struct {
	most int             // unanswered; 0: the channel has none
	note sendBuffer      // asks for windows, or tells of them
	told bool            // it has been sent
	in   []receiveBuffer // the server's windows

	// Of the client, when the windows are open:
	out    []batchBuffer
	slab   vipl.MemHandle // of what is copied into them
	next   int            // of out
	credit int            // batches that may be sent before another is answered
	ends   []bool         // by slot: its request is the last of a batch
}

// batchBuffer is a batch, and the window that it goes to.
type batchBuffer struct {
	sendBuffer
	many [piecesMost]vipl.Segment
}

// open reports whether batches may be sent.
func (b *batching) open() bool { return len(b.out) > 0 }

// ask asks the server for windows, once.
func (ch *channel) ask() {
	b := &ch.batching
	if b.most == 0 || b.told || ch.side != wire.Asking {
		return
	}
	b.told = true
	b.note.n = (&wire.Header{Kind: wire.KindAsk}).Put(b.note.mem)
	b.note.busy = true
	ch.launch(&b.note)
}

// asked opens windows, if there is memory for them, and tells the client where.
func (ch *channel) asked() {
	b := &ch.batching
	if ch.side != wire.Serving || b.most == 0 || b.told {
		ch.way.up.Stray()
		return
	}
	b.told = true
	count := b.most + 1
	if !ch.way.memory.Take(ch.station, count*BatchSize) {
		return
	}
	mem := make([]byte, count*BatchSize)
	b.in = make([]receiveBuffer, 0, count)
	at := (&wire.Header{Kind: wire.KindWindows}).Put(b.note.mem)
	for range count {
		x := receiveBuffer{mem: mem[:BatchSize:BatchSize]}
		mem = mem[BatchSize:]
		var err error
		if x.window, err = ch.way.NIC.RegisterMem(x.mem, &vipl.MemAttributes{Ptag: ch.ptag, EnableRDMAWrite: true}); err != nil {
			break // it goes without, or with fewer
		}
		b.in = append(b.in, x)
		wire.Window{Addr: vipl.VirtualAddress(x.mem), Handle: uint32(x.window)}.Put(b.note.mem[at:])
		at += wire.WindowSize
	}
	ch.way.memory.Give(ch.station, (count-len(b.in))*BatchSize)
	b.note.n, b.note.busy = at, true
	ch.launch(&b.note)
}

// opened hears where the server's windows are.
func (ch *channel) opened(list []byte) {
	b := &ch.batching
	count := len(list) / wire.WindowSize
	if ch.side != wire.Asking || !b.told || b.open() || len(list)%wire.WindowSize != 0 || count < 2 || count > b.most+1 {
		ch.way.up.Stray()
		return
	}
	mem := make([]byte, count*ch.room)
	slab, err := ch.way.NIC.RegisterMem(mem, &vipl.MemAttributes{Ptag: ch.ptag})
	if err != nil {
		return // it goes without
	}
	ch.flush() // what comes from now on is counted otherwise
	b.slab, b.credit, b.ends = slab, count-1, make([]bool, len(ch.windows))
	b.out = make([]batchBuffer, count)
	for i := range b.out {
		x := &b.out[i]
		var w wire.Window
		w.Parse(list[i*wire.WindowSize:])
		x.mem = mem[i*ch.room:][:ch.room:ch.room]
		x.desc.Op, x.desc.HasImmediate, x.desc.Immediate = vipl.OpRDMAWrite, true, uint32(len(ch.windows)+i)
		x.desc.Unordered = true // until it has been answered, nothing else goes to its window
		x.desc.Remote = vipl.RemoteSegment{Addr: w.Addr, Handle: vipl.MemHandle(w.Handle)}
		x.desc.Context = &x.sendBuffer
	}
}

// mayBatch reports whether there is a window for the next batch, or there are none
// at all.
func (ch *channel) mayBatch() bool {
	b := &ch.batching
	// One may have been answered before the provider knows that it arrived.
	return !b.open() || b.credit > 0 && !b.out[b.next].busy
}

// batch sends so many of the messages that wait.
func (ch *channel) batch(count int) {
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
	ch.start(&x.sendBuffer)
}

// adjoins reports whether the message in send buffer i makes one piece with the one
// in buffer last, which costs less than to send what is between them, unless that is
// much.
func (ch *channel) adjoins(last, i int) bool {
	x := &ch.sends[last]
	return i == last+1 && len(x.mem) == ch.full && x.n >= ch.full-ch.full/4
}

// compose makes the segments of a batch: pieces of messages that are copied, as
// load says, and those between them where they lie, with their neighbours.
func (ch *channel) compose(x *batchBuffer) {
	segs := x.many[:0]
	var tags *[wire.TagsSize]byte // of the last message that carried some
	from, at, copied, left := 0, 0, 0, len(x.members)
	first, last := 0, -1 // of the piece in place that is being made
	for _, i := range x.members {
		s := &ch.sends[i]
		left--
		if room := wire.Rounded(s.n); ch.copies(copied, room) {
			copied += room
			at += wire.Follow(x.mem[at:], wire.Join(x.mem[at:], s.mem[:s.n], &tags), left)
			last = -1
			continue
		}
		if from < at {
			segs = append(segs, vipl.Segment{Data: x.mem[from:at], Handle: ch.batching.slab})
			from = at
		}
		if wire.Kind(s.mem[0]).Tagged() {
			tags = (*[wire.TagsSize]byte)(s.mem[wire.BaseSize:])
		}
		n := wire.Follow(s.mem, s.n, left)
		if last >= 0 && ch.adjoins(last, i) {
			ch.sends[last].mem[0] |= wire.Spaced
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
func (ch *channel) heard(slot int) {
	b := &ch.batching
	if slot < len(b.ends) && b.ends[slot] {
		b.ends[slot] = false
		b.credit++
		ch.resume()
	}
}

// batched hears that the client says to have written a batch.
func (ch *channel) batched(i int64, length int) {
	b := &ch.batching
	if i >= int64(len(b.in)) || b.in[i].refs > 0 || length > BatchSize {
		ch.way.up.Stray()
		return
	}
	x := &b.in[i]
	if err := ch.way.NIC.SetMemAttributes(x.window, &vipl.MemAttributes{Ptag: ch.ptag}); err != nil {
		ch.posted(err)
		return
	}
	ch.arrived(x, length)
}

// reopen opens a window whose messages have all been released.
func (ch *channel) reopen(x *receiveBuffer) {
	if !ch.broken && !ch.closed {
		ch.posted(ch.way.NIC.SetMemAttributes(x.window, &vipl.MemAttributes{Ptag: ch.ptag, EnableRDMAWrite: true}))
	}
}

// close gives the memory back. Nothing is posted any more.
func (b *batching) close(w *Provider, station ethertype.MAC) {
	w.memory.Give(station, len(b.in)*BatchSize)
	for i := range b.in {
		w.NIC.DeregisterMem(b.in[i].window)
	}
	if b.slab != 0 {
		w.NIC.DeregisterMem(b.slab)
	}
}

// ConnectionMemory returns the bytes that a server takes for a connection of the shape
// at most, of those that count towards the budget.
func ConnectionMemory(s wire.Shape) int { return s.Memory(wire.Serving) + windowMemory(s) }
