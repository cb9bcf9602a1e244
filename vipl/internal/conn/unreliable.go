package conn

import (
	"errors"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/drops"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/vipl/internal/code"
	"github.com/bobnet-go/bobnet/vipl/internal/memory"
)

// looseRx is the receiving side of the unreliable level: frames are delivered at most
// once and in order, and gaps remain. One message is assembled at a time. If a newer
// message begins while an older one is incomplete, the older message is abandoned, and
// the newer message takes over its receive.
type looseRx struct {
	c          *Conn
	filter     reliability.Filter
	next       ethertype.Seq // number of this side's next frame: the level has no Sender
	msg        ethertype.Seq // the message being assembled, or the last one that was decided
	at         ethertype.Seq // the frame that carried this number
	assembling bool          // msg is being assembled into the oldest posted receive
	begun      bool          // any message has been seen
	write      looseWrite    // the RDMA write that is arriving
}

// receive handles data on the unreliable level. No frame breaks the connection here: a
// frame that cannot be placed is dropped and counted.
func (l *looseRx) receive(h *ethertype.Header, payload []byte) {
	if h.Kind != ethertype.KindData && h.Kind != ethertype.KindRDMAWrite {
		l.c.Drop(drops.Format)
		return
	}
	if !l.admit(h) {
		return
	}
	l.write.recordFrame(l.c, h)
	switch {
	case h.Kind == ethertype.KindRDMAWrite:
		l.rdma(h, payload)
	case h.Flags&ethertype.FlagPacked != 0:
		for m := h.Msg; m != h.Msg+ethertype.Seq(h.Count); m++ {
			r, data, rest, ok := ethertype.NextRecord(payload)
			if !ok {
				l.c.Drop(drops.Format)
				return
			}
			payload = rest
			one := *h
			one.Msg, one.Offset, one.Length = m, 0, uint32(len(data))
			l.fragment(&one, data, r.Immediate, r.HasImm)
		}
	case h.Flags&ethertype.FlagImmediate != 0:
		imm, data := ethertype.ParseImmediate(payload)
		l.fragment(h, data, imm, true)
	default:
		l.fragment(h, payload, 0, false)
	}
}

// admit reports whether the filter accepts a frame. If the filter has moved far, the
// state of messages and writes is from before a long gap, or wrong.
func (l *looseRx) admit(h *ethertype.Header) bool {
	switch verdict := l.filter.Check(h.Seq); {
	case verdict == reliability.Accept:
		l.filter.Accept(h.Seq)
	case l.filter.Refuse(h.Seq):
		l.abandon()
		l.begun = false
		l.write.abandon(l.c, l.write.first+1)
		l.write = looseWrite{}
	case verdict == reliability.Ahead:
		l.c.Drop(drops.Ahead)
		return false
	default:
		l.c.Drop(drops.Duplicate)
		return false
	}
	return true
}

// abandon abandons the message that is being assembled.
func (l *looseRx) abandon() {
	if l.assembling {
		l.c.Drop(drops.Incomplete)
		l.c.RQ.at(l.c.RQ.done).rxState = rxState{}
	}
	l.assembling = false
}

// assemble starts or continues to assemble message h.Msg, and returns its receive, or nil
// if the frame must be dropped. An honest peer never sends a lower message number in a
// later frame. If that happens, the earlier number was wrong, and must not make all later
// messages count as late.
func (l *looseRx) assemble(h *ethertype.Header) *Descriptor {
	if l.begun && !l.msg.Less(h.Msg) && (l.msg == h.Msg || !l.at.Less(h.Seq)) {
		if l.assembling && l.msg == h.Msg {
			return l.c.RQ.at(l.c.RQ.done)
		}
		l.c.Drop(drops.Late)
		return nil
	}
	l.abandon()
	l.begun, l.msg, l.at = true, h.Msg, h.Seq
	if l.c.RQ.done == l.c.RQ.tail {
		l.c.Drop(drops.NoReceive)
		l.c.Owner.Raise(FaultNoReceive, nil, code.StatusOpReceive, code.ErrRecvQueue)
		return nil
	}
	l.assembling = true
	d := l.c.RQ.at(l.c.RQ.done)
	d.begun, d.length = true, h.Length
	return d
}

func (l *looseRx) fragment(h *ethertype.Header, data []byte, imm uint32, hasImm bool) {
	d := l.assemble(h)
	if d == nil {
		return
	}
	switch {
	case h.Length != d.length || d.oneSide:
		l.c.Drop(drops.Range)
		return
	case h.Length > d.total || !memory.Scatter(d.Segs(), h.Offset, data):
		l.assembling = false
		l.c.Stats.Receives++
		l.c.RQ.complete(l.c, code.StatusOpReceive|code.StatusLengthError, 0)
		return
	}
	d.Immediate, d.HasImmediate = imm, hasImm
	l.count(d, len(data))
}

// count counts a fragment, and completes the message when all its fragments have arrived.
func (l *looseRx) count(d *Descriptor, size int) {
	if d.got += uint32(size); d.got >= d.length {
		l.assembling = false
		l.c.rx.finishReceive(d)
	}
}

func (l *looseRx) rdma(h *ethertype.Header, payload []byte) {
	r, data := ethertype.ParseRDMA(payload)
	if len(data) > 0 {
		dst := l.c.rx.target(r, h.Length)
		if dst == nil {
			l.forbidden(h)
			return
		}
		copy(dst[h.Offset:], data)
		l.c.Stats.RDMABytes += uint64(len(data))
	}
	if h.Flags&ethertype.FlagImmediate == 0 {
		return
	}
	if d := l.assemble(h); d != nil {
		if d.got > 0 && !d.oneSide || d.length != h.Length {
			l.c.Drop(drops.Range)
			return
		}
		d.oneSide, d.Immediate, d.HasImmediate = true, r.Immediate, true
		l.count(d, len(data))
	}
}

// RDMA writes on the unreliable level: nothing is retransmitted, so a write may arrive
// damaged, in part or not at all. Only asynchronous errors report this.

// looseWrite tracks the RDMA write that is arriving. As with messages, the write is
// abandoned if parts of it are missing when later data arrives.
type looseWrite struct {
	partial bool          // frames of it are missing
	begun   bool          // any write has been seen
	first   ethertype.Seq // number of its first frame
	got     uint32        // bytes of it that have arrived
}

// recordFrame records a frame that has arrived for the first time.
func (w *looseWrite) recordFrame(c *Conn, h *ethertype.Header) {
	if h.Kind != ethertype.KindRDMAWrite {
		w.abandon(c, h.Seq)
		return
	}
	first := h.Seq - ethertype.Seq(h.Offset/c.Path.writeSize())
	if w.begun && !w.first.Less(first) && (w.first != first || !w.partial) {
		return // a late frame of a write that was judged before
	}
	if !w.begun || w.first != first {
		w.abandon(c, first)
		*w = looseWrite{partial: true, begun: true, first: first}
	}
	if w.got += uint32(h.Size) - ethertype.RDMASize; w.got >= h.Length {
		w.partial = false
	}
}

// errAborted is the cause of FaultWriteAborted.
var errAborted = errors.New("vipl: an RDMA write arrived in part: frames of it were lost")

// abandon reports that the write will not be complete, if the data that begins at seq
// follows the write.
func (w *looseWrite) abandon(c *Conn, seq ethertype.Seq) {
	if w.partial && w.first.Less(seq) {
		w.partial = false
		c.Owner.Raise(FaultWriteAborted, nil, code.StatusOpRemoteRDMAWrite, errAborted)
	}
}

// writeSize is the maximum number of bytes of a long RDMA write that the peer puts into a
// frame, as cut does.
func (p *Path) writeSize() uint32 {
	room := p.Data
	if p.Long {
		room = p.c.shared.Long.Size
	}
	return fragmentSize(MaxTransferSize, room-ethertype.RDMASize, true)
}

// forbidden drops a write that is not allowed. If the write carries immediate data, the
// receive that it consumes reports this, and otherwise an asynchronous error does.
func (l *looseRx) forbidden(h *ethertype.Header) {
	if h.Flags&ethertype.FlagImmediate == 0 {
		l.c.Drop(drops.RDMA)
		l.c.Owner.Raise(FaultWriteForbidden, nil, code.StatusOpRemoteRDMAWrite, code.ErrRDMA)
		return
	}
	if d := l.assemble(h); d != nil { // else it is counted as late, or without a receive
		l.c.Drop(drops.RDMA)
		l.assembling = false
		l.c.RQ.complete(l.c, code.StatusOpRemoteRDMAWrite|code.StatusRDMAProtError, 0)
	}
}
