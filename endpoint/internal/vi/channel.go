package vi

import (
	"errors"

	"github.com/bobnet-go/bobnet/endpoint/internal/provider"
	"github.com/bobnet-go/bobnet/endpoint/internal/wire"
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/vipl"
)

// channel is one end of a connection over a VI.
type channel struct {
	way      *Provider
	up       provider.Half
	side     wire.Side
	vi       *vipl.VI
	ptag     vipl.Ptag
	slab     vipl.MemHandle
	entries  int // its share of the completion queue
	sends    []sendBuffer
	receives []receiveBuffer
	late     *receiveBuffer   // to be posted again
	writes   []bulkWrite      // by slot
	writings int              // how many of them are busy
	windows  []vipl.MemHandle // by slot; 0: none is open
	landing  landing
	broken   bool
	cause    error // why it is broken, if the VI has no error
	closed   bool
	station  ethertype.MAC // of the other end; only for a server
	taken    int           // bytes of the budget, without windows

	envelopes [numEnvelopes]sendBuffer
	full      int // length of the longest message, in bytes
	room      int // length of an envelope, in bytes
	corking   corking
	batching  batching
}

// sendBuffer is a send buffer, or an envelope.
type sendBuffer struct {
	mem     []byte
	n       int // bytes of mem in use
	busy    bool
	members []int // for an envelope: send buffers whose messages it holds
	desc    vipl.Descriptor
	segs    [1]vipl.Segment
}

// receiveBuffer is a receive buffer, or a window for batches.
type receiveBuffer struct {
	mem    []byte
	refs   int            // messages in it that have not been released
	window vipl.MemHandle // of a window; 0: it is a receive, or landing memory
	lands  bool           // it is a place in landing memory
	desc   vipl.Descriptor
	segs   [1]vipl.Segment
}

// bulkWrite is the state of the bulk write of a slot.
type bulkWrite struct {
	slot int
	busy bool
	desc vipl.Descriptor
	data vipl.MemHandle
	segs [2]vipl.Segment
}

// channel creates a VI with its buffers, and posts the receives.
func (w *Provider) channel(s wire.Shape, at wire.Side, up provider.Half) (*channel, error) {
	ch := &channel{way: w, up: up, side: at, sends: make([]sendBuffer, s.NumSends()), receives: make([]receiveBuffer, s.Receives()+1+notes(s)+1),
		writes: make([]bulkWrite, s.Slots), windows: make([]vipl.MemHandle, s.Slots), full: s.Full(), room: min(envelopeSize, s.Full(), s.Slots*wire.SmallSize)}
	ch.batching.most = Batches(s)
	ch.landing.places, ch.landing.place = landPlaces(s)
	if err := ch.createVI(s); err != nil {
		ch.Close()
		return nil, provider.OpError("connect", orClosed(err, provider.ErrResource), "%v", err)
	}
	return ch, nil
}

// orClosed returns ErrClosed if err means that the NIC is closed, and code otherwise.
func orClosed(err, code error) error {
	if errors.Is(err, vipl.ErrClosed) {
		return provider.ErrClosed
	}
	return code
}

// createVI creates the VI with its memory, receives and sends.
func (ch *channel) createVI(s wire.Shape) (err error) {
	w := ch.way
	if ch.ptag, err = w.NIC.CreatePtag(); err != nil {
		return err
	}
	posts := s.NumSends() + numEnvelopes + s.Slots + notes(s)*(1+batchesMost+1) + 1
	ch.entries = posts + len(ch.receives)
	if err := w.grow(ch.entries); err != nil {
		return err
	}
	ch.vi, err = w.NIC.CreateVI(&vipl.Attributes{
		Ptag: ch.ptag, EnableRDMAWrite: true, PeerTimeout: w.timeout,
		ConnectTimeout: w.patience(), QueueDepth: posts,
	}, w.cq.CQ, w.cq.CQ)
	if err != nil {
		return err
	}
	ch.vi.Context = ch
	// Memory of the Go heap, because the NIC may be closed before the node: undelivered messages are
	// then returned from here.
	mem := make([]byte, s.Memory(ch.side)+(1+notes(s)+1)*s.Full()+numEnvelopes*ch.room+notes(s)*noteSize+wire.SmallSize)
	slab, err := w.NIC.RegisterMem(mem, &vipl.MemAttributes{Ptag: ch.ptag})
	if err != nil {
		return err
	}
	ch.slab = slab
	take := func(n int) []byte {
		b := mem[:n:n]
		mem = mem[n:]
		return b
	}
	for i := range ch.sends {
		n := s.Sends(i, ch.side)
		ch.sends[i].init(mem[:n], slab) // its capacity includes the buffers behind it
		mem = mem[n:]
	}
	for i := range ch.envelopes {
		ch.envelopes[i].init(take(ch.room), slab)
	}
	if ch.batching.most > 0 {
		ch.batching.note.init(take(noteSize), slab)
	}
	ch.landing.note.init(take(wire.SmallSize), slab)
	for i := range ch.writes {
		x := &ch.writes[i]
		x.slot = i
		x.desc.Op, x.desc.HasImmediate = vipl.OpRDMAWrite, true
		x.desc.Unordered = true // nothing else writes to what the peer has granted
		x.desc.Context = x
	}
	for i := range ch.receives {
		x := &ch.receives[i]
		x.mem = take(s.Full())
		x.segs[0] = vipl.Segment{Data: x.mem, Handle: slab}
		x.desc.Segs, x.desc.Context = x.segs[:], x
		if err := ch.vi.PostRecv(&x.desc); err != nil {
			return err
		}
	}
	return nil
}

func (x *sendBuffer) init(mem []byte, slab vipl.MemHandle) {
	x.mem = mem
	x.segs[0].Handle = slab
	x.desc.Segs, x.desc.Context = x.segs[:], x
}

// grow makes room in the completion queue for n more completions. The queue never shrinks: the
// entries of VIs that come and go fit.
func (w *Provider) grow(n int) error {
	w.entries += n
	if have := w.cq.Query().Entries; w.entries > have {
		return w.cq.Resize(min(max(w.entries, 2*have), vipl.MaxCQEntries))
	}
	return nil
}

func (ch *channel) Buffer(i int) []byte   { return ch.sends[i].mem }
func (ch *channel) Idle(i int) bool       { return !ch.sends[i].busy }
func (ch *channel) Writing(slot int) bool { return ch.writings > 0 && ch.writes[slot].busy }

// posted makes the channel break if a post has failed. It does not break it at once, because the
// caller is in the middle of an operation, but when the provider delivers next, which is soon.
func (ch *channel) posted(err error) {
	if err != nil {
		ch.cause = err
		ch.way.failed = append(ch.way.failed, ch)
		ch.way.Wake()
	}
}

// fail reports to the half that the channel is broken, and why.
func (ch *channel) fail() {
	if ch.broken || ch.closed {
		return
	}
	ch.broken = true
	ch.abandon()
	err := ch.vi.Err()
	if err == nil {
		err = ch.vi.ConnectDone()
	}
	if err == nil {
		err = ch.cause
	}
	ch.up.Broken(reasonOf(err), err)
}

// reasonOf translates the end of a VI's connection to the reason for which messages return.
func reasonOf(err error) wire.Reason {
	var conn *vipl.ConnError
	switch {
	case errors.Is(err, vipl.ErrReject) && errors.As(err, &conn) && wire.ReasonNamed(conn.Detail) != 0:
		return wire.ReasonNamed(conn.Detail)
	case errors.Is(err, vipl.ErrNoMatch), errors.Is(err, vipl.ErrDisconnected), errors.Is(err, vipl.ErrPeerReset):
		return wire.ReasonBadEndpoint
	}
	return wire.ReasonUnreachable
}

func (ch *channel) Grant(slot int, mem []byte) (w wire.Window, err error) {
	h, err := ch.way.NIC.RegisterMem(mem, &vipl.MemAttributes{Ptag: ch.ptag, EnableRDMAWrite: true})
	if err != nil {
		return w, err
	}
	ch.windows[slot] = h
	return wire.Window{Addr: vipl.VirtualAddress(mem), Handle: uint32(h)}, nil
}

// written handles the peer's notice that it has written to a window.
func (ch *channel) written(x *receiveBuffer) {
	word, length := x.desc.Immediate, int(x.desc.Length)
	ch.posted(ch.vi.PostRecv(&x.desc))
	if word&landMark != 0 {
		ch.tookLanding(word&^landMark, length)
		return
	}
	slot := int64(word)
	if i := slot - int64(len(ch.windows)); i >= 0 {
		ch.batched(i, length)
		return
	}
	if ch.windows[slot] == 0 {
		ch.way.up.Stray()
		return
	}
	ch.Revoke(int(slot))
	ch.up.Placed(int(slot))
}

func (ch *channel) Revoke(slot int) {
	ch.way.NIC.DeregisterMem(ch.windows[slot])
	ch.windows[slot] = 0
}

func (ch *channel) Write(slot int, data []byte, to wire.Window, await bool) {
	if ch.broken || ch.closed {
		return
	}
	x := &ch.writes[slot]
	h, err := ch.way.NIC.RegisterMem(data, &vipl.MemAttributes{Ptag: ch.ptag})
	if err != nil {
		ch.posted(err)
		return
	}
	x.segs[0] = vipl.Segment{Data: data, Handle: h}
	x.desc.Segs, x.data = x.segs[:1], h
	ch.write(x, to, uint32(slot), await)
}

// write posts a write whose segments are set. Only one that a caller waits for requests its
// acknowledgement: where requests follow one another, the answers carry it.
func (ch *channel) write(x *bulkWrite, to wire.Window, word uint32, await bool) {
	ch.flush() // earlier messages are sent first
	x.desc.Immediate, x.desc.AckNow = word, await
	x.desc.Remote = vipl.RemoteSegment{Addr: to.Addr, Handle: vipl.MemHandle(to.Handle)}
	x.busy = true
	ch.writings++
	ch.way.flying++
	ch.posted(ch.vi.PostSend(&x.desc))
}

// abandon removes waiting messages and messages in flight from the counts.
func (ch *channel) abandon() {
	g := &ch.corking
	ch.way.count[ch.side] -= len(g.waiting)
	g.waiting = nil
	ch.way.flying -= g.flying
	for i := range ch.writes {
		if ch.writes[i].busy {
			ch.way.flying--
		}
	}
}

func (ch *channel) Close() {
	if ch.closed {
		return
	}
	ch.closed = true
	if !ch.broken {
		ch.abandon()
	}
	nic := ch.way.NIC
	if ch.vi != nil {
		ch.vi.Close()
	}
	ch.way.entries -= ch.entries
	ch.way.memory.Give(ch.station, ch.taken)
	if ch.slab != 0 {
		nic.DeregisterMem(ch.slab)
	}
	for i := range ch.windows {
		if ch.windows[i] != 0 {
			nic.DeregisterMem(ch.windows[i])
		}
		if ch.writes[i].busy {
			nic.DeregisterMem(ch.writes[i].data)
		}
	}
	ch.batching.close(ch.way, ch.station)
	ch.landing.close(ch.way, ch.station)
	nic.DestroyPtag(ch.ptag)
}
