package vi

import (
	"github.com/bobnet-go/bobnet/endpoint/internal/wire"
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/vipl"
)

// Batches: payloads that fill a frame together.
//
// Requests with payloads that come in a stream are sent together, as many as a long frame holds, in
// one RDMA write with immediate data. The client's interface gathers them from their send buffers,
// and the server's interface places them in a window that holds them all. So a request costs
// neither side a VI message of its own, nor the server a second copy.
//
// A client asks for windows when it could have used one for the first time. The server opens them,
// in memory of the budget. It closes a window when the client has written it, so that the client
// cannot change data that a handler reads, and opens it again when the last of its messages has
// been released.
//
// The client does not need to know when a window opens again. Its server handles requests in their
// order. So when the last request of a batch has been answered, all messages before it have been
// released, and so have all batches before this one. Only the handler that has just answered may
// still use its window. There is one window more than there may be unanswered batches, and windows
// are written in turn, so the next window is open. While no window is free, all later messages
// wait. That costs nothing: the server has enough to do. A batch uses one receive, for its
// immediate data, and carries at least one request, and there are no more requests than receives
// (endpoint/slot.go).
//
// A message that no other one follows is sent alone, so a single message never waits for a window.
// Short messages still share envelopes.

// BatchSize is the number of bytes of an RDMA write that fit in a long frame.
const BatchSize = (framing.LongMTU - ethertype.BaseSize - ethertype.RDMASize) &^ 3

// batchesMost limits the unanswered batches: their data should stay in a cache.
const batchesMost = 8

// Batches returns how many unanswered batches a client of the shape may have, 0 if its credits do
// not suffice for more than one. The batches hold no more than the credits allow.
func Batches(s wire.Shape) int {
	if n := s.Slots * s.Full() / BatchSize; n > 1 {
		return min(n, batchesMost)
	}
	return 0
}

// notes returns how many messages about windows each side of a channel receives, in addition to
// those of its slots.
func notes(s wire.Shape) int { return min(Batches(s), 1) }

// windowMemory returns the bytes of a server's windows.
func windowMemory(s wire.Shape) int { return notes(s) * (Batches(s) + 1) * BatchSize }

// piecesMost limits the pieces of a batch.
const piecesMost = vipl.MaxSegments

// noteSize is the length of the longest message about windows.
const noteSize = wire.BaseSize + (batchesMost+1)*wire.WindowSize

// batching is the state that one end of a channel keeps for batches.
type batching struct {
	most int             // limit of unanswered batches; 0: the channel has no batches
	note sendBuffer      // requests windows, or announces them
	told bool            // note has been sent
	in   []receiveBuffer // the server's windows

	// The client's, when the windows are open:
	out    []batchBuffer
	slab   vipl.MemHandle // of the memory for copied messages
	next   int            // index in out
	credit int            // batches that may be sent before the server answers another
	ends   []bool         // by slot: its request is the last of a batch
}

// batchBuffer is a batch and its window.
type batchBuffer struct {
	sendBuffer
	many [piecesMost]vipl.Segment
}

// enabled reports whether batches may be sent.
func (b *batching) enabled() bool { return len(b.out) > 0 }

// ask requests windows from the server, once.
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

// asked opens windows, if there is memory for them, and sends their addresses to the client.
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
			break // the channel works without windows, or with fewer
		}
		b.in = append(b.in, x)
		wire.Window{Addr: vipl.VirtualAddress(x.mem), Handle: uint32(x.window)}.Put(b.note.mem[at:])
		at += wire.WindowSize
	}
	ch.way.memory.Give(ch.station, (count-len(b.in))*BatchSize)
	b.note.n, b.note.busy = at, true
	ch.launch(&b.note)
}

// opened handles the message with the addresses of the server's windows.
func (ch *channel) opened(list []byte) {
	b := &ch.batching
	count := len(list) / wire.WindowSize
	if ch.side != wire.Asking || !b.told || b.enabled() || len(list)%wire.WindowSize != 0 || count < 2 || count > b.most+1 {
		ch.way.up.Stray()
		return
	}
	mem := make([]byte, count*ch.room)
	slab, err := ch.way.NIC.RegisterMem(mem, &vipl.MemAttributes{Ptag: ch.ptag})
	if err != nil {
		return // the channel works without windows
	}
	ch.flush() // later messages are counted differently
	b.slab, b.credit, b.ends = slab, count-1, make([]bool, len(ch.windows))
	b.out = make([]batchBuffer, count)
	for i := range b.out {
		x := &b.out[i]
		var w wire.Window
		w.Parse(list[i*wire.WindowSize:])
		x.mem = mem[i*ch.room:][:ch.room:ch.room]
		x.desc.Op, x.desc.HasImmediate, x.desc.Immediate = vipl.OpRDMAWrite, true, uint32(len(ch.windows)+i)
		x.desc.Unordered = true // until the server has answered it, nothing else is written to its window
		x.desc.Remote = vipl.RemoteSegment{Addr: w.Addr, Handle: vipl.MemHandle(w.Handle)}
		x.desc.Context = &x.sendBuffer
	}
}

// mayBatch reports whether a window is free for the next batch. It returns true if the channel has
// no windows.
func (ch *channel) mayBatch() bool {
	b := &ch.batching
	// The server may have answered a batch before the provider learns that it arrived.
	return !b.enabled() || b.credit > 0 && !b.out[b.next].busy
}

// batch sends the first count of the waiting messages.
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
		if i := x.members[k]; i < len(b.ends) { // else it is not a request, and is handled out of order
			b.ends[i] = true
			break
		}
	}
	ch.compose(x)
	ch.postSend(&x.sendBuffer)
}

// adjoins reports whether the message in send buffer i is sent in one piece with the message in
// buffer last. That is cheaper than two pieces unless the unused space between them is large.
func (ch *channel) adjoins(last, i int) bool {
	x := &ch.sends[last]
	return i == last+1 && len(x.mem) == ch.full && x.n >= ch.full-ch.full/4
}

// compose makes the segments of a batch: pieces of copied messages (see load), and between them the
// messages that are sent in place, joined with their neighbours.
func (ch *channel) compose(x *batchBuffer) {
	segs := x.many[:0]
	var tags *[wire.TagsSize]byte // of the last message that carried tags
	from, at, copied, left := 0, 0, 0, len(x.members)
	first, last := 0, -1 // of the in-place piece under construction
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

// heard handles the server's answer in a slot.
func (ch *channel) heard(slot int) {
	b := &ch.batching
	if slot < len(b.ends) && b.ends[slot] {
		b.ends[slot] = false
		b.credit++
		ch.resume()
	}
}

// batched handles the peer's notice that it has written a batch.
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

// close frees the memory. Nothing may be posted afterwards.
func (b *batching) close(w *Provider, station ethertype.MAC) {
	w.memory.Give(station, len(b.in)*BatchSize)
	for i := range b.in {
		w.NIC.DeregisterMem(b.in[i].window)
	}
	if b.slab != 0 {
		w.NIC.DeregisterMem(b.slab)
	}
}

// ConnectionMemory returns the most bytes of the budget that a server uses for a connection of the
// shape.
func ConnectionMemory(s wire.Shape) int { return s.Memory(wire.Serving) + windowMemory(s) }
