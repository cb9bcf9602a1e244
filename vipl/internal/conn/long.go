package conn

import (
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/drops"
	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/internal/latch"
	"github.com/bobnet-go/bobnet/internal/link/optional"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/vipl/internal/code"
	"github.com/bobnet-go/bobnet/vipl/internal/memory"
)

// Long frames, those that some links carry beyond their MTU (transport.LongLink).
//
// Whether the path to a peer carries them whole, and back, the handshake finds out: the
// client sends a probe of that size beside the others. A path that cuts or drops long frames gives no
// answer, since the receiving link drops segments and counts them. If the probe is answered, all its
// frames say so (ethertype.FlagTakesLong), and from then on either side cuts
// messages accordingly. Only connections on the reliable levels do: on the
// unreliable one a fragment's place in the sequence tells which RDMA write it is of,
// so that all must be of one size.
//
// Of a long frame only the beginning is at hand when it is judged; its data are
// fetched from the link to where they belong, and so are copied once. Those that
// are needed before, of several messages for example, are fetched first.

// longRx is what the connections of a NIC share for long frames.
type longRx struct {
	link    transport.LongLink // nil: none
	Size    int                // bytes of payload that a long frame holds; 0 without them
	room    []byte             // for a frame that is put together; made for the first one
	promise bool               // of the payload that is being received, what follows the extension is not in room yet
	parts   [maxParts][]byte
	last    [latch.WordSize]byte // of the data of an RDMA write
	out     []byte               // for a frame that goes in pieces; made for the first one
	Fetched uint64               // frames that went straight to where they belong
}

// maxParts is of how many pieces the memory is to which a frame goes.
const maxParts = MaxSegments

// longFlight bounds what a connection has under way of long frames, which is best
// kept in a cache. One in longAsk of those that are not acknowledged asks for it.
const (
	longFlight = 12 // frames
	longAsk    = 6
)

func (l *longRx) init(sh *Shared) {
	link, ok := sh.link.(transport.LongLink)
	if !ok || sh.info.Unprotected {
		return
	}
	if l.link = link; link.StartLong() {
		l.Size = optional.LongMTU(link) - ethertype.BaseSize
	}
}

// MayUseLong reports whether the connection would use long frames if its peer and the path did. They
// are the frames that the interface's MTU does not allow. Where that is larger than
// the peer's, or has been made smaller since the link was opened, there are lengths
// between both that the link takes for those of common frames, and that do not pass:
// see adoptPeer.
func (p *Path) MayUseLong() bool {
	return p.c.shared.Long.Size > 0 && p.c.Reliable && p.c.Remote.MAC != p.c.shared.info.MAC
}

// BeginLong is called at the end of a handshake that has asked for long frames. If it has not heard that
// the path carries them, which can be for a lost probe, it is asked again later, as after a black hole.
func (p *Path) BeginLong(proven bool) {
	switch {
	case proven:
		p.UseLong()
	case p.Long:
		p.hole.Enter(p.c.shared.now)
	}
}

// UseLong begins to send long frames, which the path has been proven to carry: at
// once, or behind the RDMA write that is being sent, whose fragments are of one size;
// see overtakes.
func (p *Path) UseLong() {
	if p.hole.Found {
		return
	}
	if p.switching = p.c.tx.cursor.offset > 0 && p.c.SQ.at(p.c.tx.cursor.next).Op == code.OpRDMAWrite; p.switching {
		return
	}
	p.c.flags |= ethertype.FlagTakesLong
	p.MaxData = p.c.shared.Long.Size
}

// switchSize does at the beginning of a message what UseLong, or a black hole, has put off.
func (p *Path) switchSize() {
	if p.switching = false; p.hole.Found {
		p.MaxData = p.Data
		return
	}
	p.UseLong()
}

// UsesLong reports whether the connection sends long frames.
func (p *Path) UsesLong() bool { return p.MaxData > p.Data }

// longWindowFull reports whether so much is under way that a further long frame should
// wait.
func (t *txHalf) longWindowFull() bool {
	if !t.c.Path.UsesLong() || t.sender.InFlight() < longFlight {
		return false
	}
	if t.c.serves.waiting > 0 || t.cursor.next == t.c.SQ.tail {
		return true
	}
	d := t.c.SQ.at(t.cursor.next)
	if d.total < packLong {
		return false
	}
	ready := uint64(t.c.SQ.tail.Sub(t.cursor.next)) * uint64(d.total) // about, if the others are like it
	return ready > uint64(t.cursor.offset)+uint64(t.c.Path.Data)
}

// Rest returns how many bytes of the frame that was received last are with the link.
func (sh *Shared) Rest() int {
	if sh.Long.link == nil {
		return 0
	}
	return sh.Long.link.Rest()
}

// BeginLong takes the header of a long frame apart, of which rest bytes are with the link.
// If straight agrees, the payload that it returns is what is there, and the data behind it
// are fetched to where they belong when they are placed; EndLong ends that. Otherwise it
// returns nil.
func (sh *Shared) BeginLong(begin []byte, rest int, straight func(h *ethertype.Header) bool) (h *ethertype.Header, payload []byte) {
	l, h := &sh.Long, &sh.in
	frame := sh.longRoom(len(begin) + rest)
	if frame == nil {
		return h, nil
	}
	if _, err := h.ParseBegin(begin, rest); err != nil || !straight(h) {
		return h, nil
	}
	copy(frame[:ethertype.HeaderSize+h.Extension()], begin)
	l.promise = true
	sh.CountReceived(len(frame))
	return h, frame[ethertype.HeaderSize:][:h.Size]
}

// EndLong ends what BeginLong has begun.
func (sh *Shared) EndLong() { sh.Long.promise = false }

// FetchLong returns a long frame whole, nil if it is none or the link has lost it.
func (sh *Shared) FetchLong(begin []byte, rest int) []byte {
	l := &sh.Long
	frame := sh.longRoom(len(begin) + rest)
	if frame == nil {
		sh.Drop(drops.Format)
		return nil
	}
	copy(frame, begin[:ethertype.HeaderSize])
	if l.parts[0] = frame[ethertype.HeaderSize:]; !l.link.Fetch(ethertype.HeaderSize, l.parts[:1]) {
		sh.Drop(drops.Short)
		return nil
	}
	return frame
}

// longRoom returns room for a frame of size bytes, nil if none is so long.
func (sh *Shared) longRoom(size int) []byte {
	l := &sh.Long
	if l.room == nil {
		l.room = make([]byte, ethertype.EthernetSize+max(framing.LongMTU, sh.info.MTU))
	}
	if size > len(l.room) {
		return nil
	}
	return l.room[:size]
}

// TakesStraight reports whether the data of a frame need not be seen before they lie
// where they belong.
func (c *Conn) TakesStraight(h *ethertype.Header) bool {
	return c.Reliable && h.Flags&(ethertype.FlagPacked|ethertype.FlagWholeCRC) == 0 &&
		(h.Kind == ethertype.KindData || h.Kind == ethertype.KindRDMAWrite || h.Kind == ethertype.KindReadData)
}

// copyIn copies data, the end of the payload that is being received, to offset in
// segs. The outcome is fatal if there is no room, and deferred if the link has
// lost them.
func (sh *Shared) copyIn(segs []Segment, offset uint32, data []byte) outcome {
	l := &sh.Long
	if !l.promise {
		if !memory.Scatter(segs, offset, data) {
			return fatal
		}
		return placed
	}
	parts, ok := memory.AppendParts(l.parts[:0], segs, offset, uint32(len(data)))
	if !ok {
		return fatal
	}
	ok = l.link.Fetch(ethertype.HeaderSize+int(sh.in.Size)-len(data), parts)
	clear(parts) // keep none of the caller's memory alive
	if !ok {
		return deferred
	}
	l.Fetched++
	return placed
}

// resendLong sends a long frame again: in pieces if it must not be long any more.
// It reports false when the link takes no more now.
func (t *txHalf) resendLong(f *reliability.Sent, seq ethertype.Seq, flags ethertype.Flags) bool {
	sh, p := t.c.shared, &t.c.Path.hole
	if !p.Found {
		if !p.RecordLoss(sh.now, seq, t.sender.Una(), t.c.heard, t.sender.Mark()-1, t.sender.LongerAcked(p.Mark, uint32(t.c.Path.Data))) {
			took := t.build(f, seq, flags)
			t.c.SendAck(ethertype.FlagAckNow) // which is short: does the peer hear us?
			return took
		}
		p.Enter(sh.now)
		t.c.flags &^= ethertype.FlagTakesLong
		if t.c.Path.switching = t.cursor.offset > 0 && t.c.SQ.at(t.cursor.next).Op == code.OpRDMAWrite; !t.c.Path.switching {
			t.c.Path.MaxData = t.c.Path.Data
		}
		sh.log.Debug("the path carries long frames no more", "local", t.c.Local(), "remote", t.c.Remote)
	}
	return t.sendPieces(f, seq, flags)
}

// probeLong asks the peer, if it is time, whether the path carries long frames again.
func (p *Path) probeLong() {
	if p.hole.Ask(p.c.shared.now) {
		p.SendProbe(ethertype.KindProbe, p.c.shared.Long.Size)
	}
}

// leaveHole goes over to long frames, because a probe of that length has been answered.
func (p *Path) leaveHole() {
	if !p.hole.Found {
		return
	}
	p.hole.Leave(p.c.shared.now)
	p.UseLong()
	p.c.shared.log.Debug("the path carries long frames", "local", p.c.Local(), "remote", p.c.Remote)
}

// copyInWords copies data, the end of the payload that is being received, to dst, which is as
// long. No aligned word of 4 or 8 bytes is torn, and the last one is stored last. It
// reports false if the link has lost the data.
func (sh *Shared) copyInWords(dst, data []byte) bool {
	l := &sh.Long
	if !l.promise {
		latch.StoreWords(dst, data)
		return true
	}
	last := min(len(dst), latch.WordSize)
	l.parts[0], l.parts[1] = dst[:len(dst)-last], l.last[:last]
	parts := l.parts[:2]
	if len(parts[0]) == 0 {
		parts = parts[1:]
	}
	ok := l.link.Fetch(ethertype.HeaderSize+int(sh.in.Size)-len(data), parts)
	clear(l.parts[:2])
	if !ok {
		return false
	}
	latch.StoreWords(dst[len(dst)-last:], l.last[:last])
	l.Fetched++
	return true
}
