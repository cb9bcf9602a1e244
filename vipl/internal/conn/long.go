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

// Long frames are frames beyond the MTU, which some links carry (transport.LongLink).
//
// A connection asks for long frames when a message does not fit a frame. While a link receives long frames,
// its host has additional work for each packet of another protocol. So the links of both sides start to
// receive long frames only on request:
//
//	this side                                           the peer
//	  | -- probe without payload, takes-long ------------> |  receives long frames from now on
//	  | <------- probe-ack without payload, takes-long -- |
//	  | -- probe of the length of a long frame ---------> |  arrives, if the path carries it
//	  | <--------------- probe-ack of the same length -- |
//
// A link that has stopped receiving long frames may need some 100 ms to start again. The question, or the
// answer, is sent when the link has started.
//
// Question and answer must be genuine, so that only the peer of an established connection can make a host
// start.
//
// If the path drops long frames, the last answer does not arrive. The connection asks again, at growing
// intervals, while it has such messages. If the long probe is answered, all frames of this side carry
// ethertype.FlagTakesLong, and from then on both sides cut messages into long frames. Only connections on the
// reliable levels use long frames. On the unreliable level a fragment's position in the sequence identifies its
// RDMA write, so all fragments must have the same size.
//
// A connection that has neither sent nor received long frames for longRest asks again before it sends
// one. A NIC without long frames for twice as long stops receiving them: by then no peer sends any.
//
// A path may cut long frames: the receiving link joins the segments. If one segment is lost, the whole frame is
// lost and is sent again. So when long frames begin to arrive in segments, or no longer do, the receiver notifies
// its peer by repeating the answer above. The sender returns to frames of the MTU when more than one long frame in cutLossy
// is lost. It treats such a path like a path that drops all long frames, as a black hole (see BlackHole).
//
// When a long frame is examined, only its beginning is in memory. Its data are then
// fetched from the link straight to their destination, and so are copied once. Data that
// are needed earlier, for example in a frame with several messages, are fetched first.

// longRx is the state for long frames that the connections of a NIC share.
type longRx struct {
	link    transport.LongLink // nil: none
	Size    int                // bytes of payload that a long frame holds; 0 without them
	room    []byte             // for a frame that is reassembled; allocated for the first one
	promise bool               // the payload that is being received is in room only up to the extension
	parts   [maxParts][]byte
	edges   [latch.MaxEdges]byte // of the data of an RDMA write
	out     []byte               // for a frame that is sent in pieces; allocated for the first one
	Fetched uint64               // frames stored straight at their destination

	lender   optional.Lender // nil: none
	Receives bool            // the link receives them
	told     bool            // the link was told to receive them, and may start later
	used     int64           // when long frames were last sent, received or requested
}

// maxParts is the maximum number of pieces of memory that a frame is stored to.
const maxParts = MaxSegments

// longFlight bounds the long frames that a connection has in flight, because their data
// should fit a cache. One in longAsk unacknowledged long frames requests an
// acknowledgement.
const (
	longFlight = 12 // frames
	longAsk    = 6
)

// longRest is how long a connection without long frames remembers that its path carries them,
// in nanoseconds.
const longRest = 30_000_000_000

func (l *longRx) init(sh *Shared) {
	link, ok := sh.link.(transport.LongLink)
	if !ok || sh.info.Unprotected {
		return
	}
	l.lender, _ = sh.link.(optional.Lender)
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

// longNeed is the state of a connection's need for long frames.
type longNeed struct {
	wants  bool  // a long frame would have held more than the one that was sent
	asks   bool  // the peer has not yet answered that it receives them
	owes   bool  // the peer has asked, and this side does not yet receive them
	agreed bool  // one side has asked the other, or has sent one
	cut    bool  // the peer's long frames arrive in segments
	cuts   bool  // cut was true since the peer's last question
	whole  uint8 // while cut: how many have arrived whole since the last one in segments
	used   int64 // when one was last sent or received
}

// wantsLong reports whether a long frame would hold more of the unsent data than frame o does.
func (t *txHalf) wantsLong(o *outgoing) bool {
	p := &t.c.Path
	return p.Long && !p.UsesLong() && !p.switching && int(o.Size) > p.Data/2 && o.Size >= packLong*uint32(o.Count) && t.unsent()
}

// askLong asks the peer, if a question is due, whether the path carries long frames.
func (p *Path) askLong() {
	sh := p.c.shared
	p.need.wants = false
	if p.hole.Need(sh.now); !p.hole.Due(sh.now) {
		return
	}
	if !sh.receiveLong() {
		p.hole.Wait(sh.now)
		return
	}
	p.hole.Ask(sh.now)
	p.need.asks, p.need.agreed = true, true
	p.c.Stats.LongAsks++
	p.sendProbe(ethertype.KindProbe, ethertype.FlagTakesLong, 0)
}

// AnswerLong answers the peer's question whether this side receives long frames, as soon as it does: the
// peer may not ask again for minutes. There is no answer if it cannot.
func (p *Path) AnswerLong() {
	if p.need.owes = !p.c.shared.receiveLong(); !p.need.owes {
		p.need.agreed, p.need.cut, p.need.cuts = true, false, false
		p.sendProbe(ethertype.KindProbeAck, ethertype.FlagTakesLong, 0)
	}
}

// probeLong sends a long probe, because the peer receives long frames. A repetition of the peer's answer
// has no effect.
func (p *Path) probeLong() {
	if p.need.asks {
		p.need.asks = false
		p.SendProbe(ethertype.KindProbe, p.c.shared.Long.Size)
	}
}

// receiveLong makes the link receive long frames, and reports whether it does.
func (sh *Shared) receiveLong() bool {
	l := &sh.Long
	l.used = sh.now
	if !l.Receives {
		l.told = true
		if l.Receives = l.link.ReceiveLong(true); l.Receives {
			sh.stats.LongStarts++
		}
	}
	return l.Receives
}

// restLong stops the reception of long frames if no connection has used them for a long
// time.
func (sh *Shared) restLong() {
	if l := &sh.Long; l.told && sh.now-l.used > 2*longRest {
		l.told, l.Receives = false, l.link.ReceiveLong(false)
	}
}

// answerLate is called by each sweep: the link may have begun to receive long frames.
func (p *Path) answerLate() {
	if p.need.owes {
		p.AnswerLong()
	}
}

// rest forgets that the path carries long frames, if the connection has not used them for a
// long time.
func (p *Path) rest() {
	if p.UsesLong() && p.c.shared.now-p.need.used > longRest && p.c.tx.cursor.offset == 0 {
		p.need.agreed, p.MaxData = false, p.Data
		p.c.flags &^= ethertype.FlagTakesLong
	}
}

// useLong records that a long frame is sent or received.
func (p *Path) useLong() { p.need.used, p.c.shared.Long.used = p.c.shared.now, p.c.shared.now }

// heardLong is called for a genuine frame with which the peer reports that the path carries long
// frames. A frame that is itself long shows that the peer uses long frames, even if this side does not
// use them, or has forgotten that it did.
func (p *Path) heardLong(h *ethertype.Header) {
	if int(h.Size) > p.Data {
		p.useLong()
		p.need.agreed = true
		p.HeardCut(h.Flags&ethertype.FlagRetry != 0)
	}
	if p.need.agreed && !p.UsesLong() {
		p.UseLong()
	}
}

// wholeRun is how many long frames must arrive whole, one after the other, before the path counts as one that does not
// cut them: a host may join the segments of some frames before they reach the link.
const wholeRun = 64

// HeardCut is called for a genuine long frame of the peer. It notifies the peer if it is the first one that has arrived
// in segments, or if wholeRun frames have arrived whole since. If again is set, it repeats the last notification,
// which may have been lost: frames are lost, or the path is new.
func (p *Path) HeardCut(again bool) {
	n := &p.need
	was := n.cut
	switch {
	case p.c.shared.Long.link.Cut():
		n.cut, n.cuts, n.whole = true, true, 0
	case n.cut:
		n.whole++
		n.cut = n.whole < wholeRun
	}
	if n.cut != was || again && n.cuts {
		p.sendProbe(ethertype.KindProbeAck, ethertype.FlagTakesLong, 0)
	}
}

// cutLoss records the retransmission of a long frame on a path that cuts them. It reports whether so many are lost that
// frames of the MTU are better.
func (p *Path) cutLoss() bool {
	if !p.Cut {
		return false
	}
	p.lost++
	return p.lost >= cutLosses && p.lost*cutLossy > p.sent
}

// countLong counts a long frame that is sent for the first time.
func (p *Path) countLong() {
	if p.sent++; p.sent == cutWindow {
		p.sent, p.lost = p.sent/2, p.lost/2
	}
}

const (
	cutLossy  = 8   // more than one frame in this many must be lost,
	cutLosses = 8   // and this many in total,
	cutWindow = 512 // of about this many frames that were sent last
)

// UseLong begins to send long frames, which the path has been proven to carry: at
// once, or behind the RDMA write that is being sent, whose fragments are of one size;
// see overtakes.
func (p *Path) UseLong() {
	if p.hole.Found || !p.c.shared.receiveLong() {
		return
	}
	if p.switching = p.c.tx.cursor.offset > 0 && p.c.SQ.at(p.c.tx.cursor.next).Op == code.OpRDMAWrite; p.switching {
		return
	}
	p.useLong()
	p.sent, p.lost = 0, 0
	p.c.flags |= ethertype.FlagTakesLong
	p.MaxData = p.c.shared.Long.Size
}

// switchSize changes the frame size at the beginning of a message, if UseLong or a black
// hole has postponed the change.
func (p *Path) switchSize() {
	if p.switching = false; p.hole.Found {
		p.MaxData = p.Data
		return
	}
	p.UseLong()
}

// UsesLong reports whether the connection sends long frames.
func (p *Path) UsesLong() bool { return p.MaxData > p.Data }

// longWindowFull reports whether so much data is in flight that another long frame should
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

// BeginLong decodes the header of a long frame, of which the link still holds rest bytes.
// If straight returns true, BeginLong returns the payload, of which only the beginning is
// in memory. The data behind it are fetched straight to their destination when they are
// placed, until EndLong is called. Otherwise BeginLong returns nil.
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

// longRoom returns room for a frame of size bytes, or nil if no room is that long.
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

// lentLeast is the least number of bytes whose copy is reported to a link that lends frames.
const lentLeast = 8 << 10

// beginCopy returns the time before a copy of data that endCopy reports, or 0.
func (c *Conn) beginCopy(data []byte) int64 {
	if len(data) < lentLeast || c.shared.Long.lender == nil || c.Remote.MAC != c.shared.info.MAC {
		return 0
	}
	return c.shared.link.Now()
}

// endCopy reports the time that the copy of data from a process of this host has taken.
func (c *Conn) endCopy(data []byte, begin int64) {
	if begin != 0 {
		c.shared.Long.lender.Copied(c.Remote.Port, c.Port, len(data), c.shared.link.Now()-begin)
	}
}

// copyIn copies data, the end of the payload that is being received, to offset in
// segs. The outcome is fatal if there is no room, and deferred if the link has
// lost them.
func (c *Conn) copyIn(segs []Segment, offset uint32, data []byte) outcome {
	sh := c.shared
	l := &sh.Long
	if !l.promise {
		begin := c.beginCopy(data)
		if !memory.Scatter(segs, offset, data) {
			return fatal
		}
		c.endCopy(data, begin)
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

// resendLong retransmits a long frame, in pieces if the connection no longer sends long
// frames. It returns false if the link accepts no more now.
func (t *txHalf) resendLong(f *reliability.Sent, seq ethertype.Seq, flags ethertype.Flags) bool {
	sh, p := t.c.shared, &t.c.Path.hole
	if !p.Found {
		if !t.c.Path.cutLoss() && !p.RecordLoss(sh.now, seq, t.sender.Una(), t.c.heard, t.sender.Mark()-1, t.sender.LongerAcked(p.Mark, uint32(t.c.Path.Data))) {
			took := t.build(f, seq, flags)
			t.c.SendAck(ethertype.FlagAckNow) // a short frame: does the peer still receive?
			return took
		}
		p.Enter(sh.now)
		t.c.Stats.LongStops++
		t.c.flags &^= ethertype.FlagTakesLong
		if t.c.Path.switching = t.cursor.offset > 0 && t.c.SQ.at(t.cursor.next).Op == code.OpRDMAWrite; !t.c.Path.switching {
			t.c.Path.MaxData = t.c.Path.Data
		}
		sh.log.Debug("the path no longer carries long frames, or loses many segments of them", "local", t.c.Local(), "remote", t.c.Remote)
	}
	return t.sendPieces(f, seq, flags)
}

// leaveHole switches to long frames, because a probe of that length has been answered.
func (p *Path) leaveHole() {
	if !p.hole.Found {
		return
	}
	p.hole.Leave(p.c.shared.now)
	p.UseLong()
	p.c.shared.log.Debug("the path carries long frames", "local", p.c.Local(), "remote", p.c.Remote)
}

// copyInWords copies data, the end of the payload that is being received, to dst, which is as
// long. No aligned word of 4 or 8 bytes is torn. The last word, with what follows it, is stored last. If last
// is not nil, it is kept there and not stored. copyInWords reports false if the link has lost the data.
func (c *Conn) copyInWords(dst, data []byte, last *lastWord) bool {
	sh := c.shared
	l := &sh.Long
	if !l.promise && last == nil {
		begin := c.beginCopy(data)
		latch.StoreWords(dst, data)
		c.endCopy(data, begin)
		return true
	}
	head, tail := latch.Edges(dst)
	body := len(dst) - tail
	if !l.promise {
		latch.StoreWords(dst[:body], data[:body])
		last.size = copy(last.bytes[:], data[body:])
		return true
	}
	first, end := l.edges[:head], l.edges[head:][:tail]
	parts := append(l.parts[:0], first, dst[head:body], end)
	ok := l.link.Fetch(ethertype.HeaderSize+int(sh.in.Size)-len(data), parts)
	clear(parts)
	if !ok {
		return false
	}
	l.Fetched++
	latch.StoreWords(dst[:head], first)
	if last != nil {
		last.size = copy(last.bytes[:], end)
		return true
	}
	latch.StoreWords(dst[body:], end)
	return true
}
