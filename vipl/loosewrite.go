package vipl

import "github.com/bobnet-go/bobnet/ethertype"

// RDMA writes on the unreliable level: nothing is sent again, so a write may
// arrive damaged, in part or not at all, and only asynchronous errors tell.

// looseWrite watches over the RDMA write that arrives now. As with messages,
// what is missing of it when something later comes is given up.
type looseWrite struct {
	open  bool          // frames of it are missing
	begun bool          // any write has been seen
	first ethertype.Seq // of its frames
	got   uint32        // bytes of it that have come
}

// note takes notice of a frame that has come for the first time.
func (w *looseWrite) note(v *VI, h *ethertype.Header) {
	if h.Kind != ethertype.KindRDMAWrite {
		w.abandon(v, h.Seq)
		return
	}
	first := h.Seq - ethertype.Seq(h.Offset/v.writeSize())
	if w.begun && !w.first.Less(first) && (w.first != first || !w.open) {
		return // a late frame of a write that was judged before
	}
	if !w.begun || w.first != first {
		w.abandon(v, first)
		*w = looseWrite{open: true, begun: true, first: first}
	}
	if w.got += uint32(h.Size) - ethertype.RDMASize; w.got >= h.Length {
		w.open = false
	}
}

// abandon tells that the write will not be whole, if what begins at seq comes
// after it.
func (w *looseWrite) abandon(v *VI, seq ethertype.Seq) {
	if w.open && w.first.Less(seq) {
		w.open = false
		v.nic.raise(CodeRDMAWAbort, v, nil, StatusOpRemoteRDMAWrite, errAborted)
	}
}

// writeSize is how many bytes of a long RDMA write the peer puts into a frame,
// as cut does, at the most.
func (v *VI) writeSize() uint32 {
	room := v.pathData
	if v.long {
		room = v.nic.long.size
	}
	return fragment(MaxTransferSize, room-ethertype.RDMASize, true)
}

// looseForbidden drops a write that is not allowed. If it carries immediate
// data the receive that it spends says so, else an asynchronous error.
func (v *VI) looseForbidden(h *ethertype.Header) {
	n := v.nic
	if h.Flags&ethertype.FlagImmediate == 0 {
		v.drop(DropRDMA)
		n.raise(CodeRDMAWProt, v, nil, StatusOpRemoteRDMAWrite, ErrRDMA)
		return
	}
	if d := v.looseOpen(h); d != nil { // else it is counted as late, or without a receive
		v.drop(DropRDMA)
		v.loose.open = false
		v.rq.complete(v, StatusOpRemoteRDMAWrite|StatusRDMAProtError, 0)
	}
}
