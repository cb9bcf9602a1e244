package conn

import (
	"errors"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/vipl/internal/code"
)

// RDMA writes on the unreliable level: nothing is sent again, so a write may
// arrive damaged, in part or not at all, and only asynchronous errors tell.

// looseWrite watches over the RDMA write that arrives now. As with messages,
// what is missing of it when something later comes is given up.
type looseWrite struct {
	partial bool          // frames of it are missing
	begun   bool          // any write has been seen
	first   ethertype.Seq // of its frames
	got     uint32        // bytes of it that have come
}

// recordFrame records a frame that has come for the first time.
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

// abandon tells that the write will not be whole, if what begins at seq comes
// after it.
func (w *looseWrite) abandon(c *Conn, seq ethertype.Seq) {
	if w.partial && w.first.Less(seq) {
		w.partial = false
		c.Owner.Raise(FaultWriteAborted, nil, code.StatusOpRemoteRDMAWrite, errAborted)
	}
}

// writeSize is how many bytes of a long RDMA write the peer puts into a frame,
// as cut does, at the most.
func (p *Path) writeSize() uint32 {
	room := p.Data
	if p.Long {
		room = p.c.shared.Long.Size
	}
	return fragmentSize(MaxTransferSize, room-ethertype.RDMASize, true)
}

// forbidden drops a write that is not allowed. If it carries immediate
// data the receive that it spends says so, else an asynchronous error.
func (l *looseRx) forbidden(h *ethertype.Header) {
	if h.Flags&ethertype.FlagImmediate == 0 {
		l.c.Drop(code.DropRDMA)
		l.c.Owner.Raise(FaultWriteForbidden, nil, code.StatusOpRemoteRDMAWrite, code.ErrRDMA)
		return
	}
	if d := l.assemble(h); d != nil { // else it is counted as late, or without a receive
		l.c.Drop(code.DropRDMA)
		l.assembling = false
		l.c.RQ.complete(l.c, code.StatusOpRemoteRDMAWrite|code.StatusRDMAProtError, 0)
	}
}
