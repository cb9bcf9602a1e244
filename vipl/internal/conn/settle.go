package conn

import (
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/vipl/internal/code"
)

// This file has what a poll leaves to be done once for each connection, however many frames came
// for it, and what it puts off until the caller is back. Everything in it runs with the
// engine's lock held.

// deferredAck is the acknowledgement of a frame that came alone and in order, and whose message
// goes to a caller that waits for it. The caller goes first: CatchUp handles what the
// acknowledgement completes, and the timers, when the caller is back in the engine after it has
// sent its answer. This takes a tenth off the time of a ping-pong.
type deferredAck struct {
	waits bool // there is one; the connection is touched
	ack   ethertype.Seq
	at    int64
}

// deferAck notes h's acknowledgement for later if nothing depends on it now.
func (r *rxHalf) deferAck(h *ethertype.Header) bool {
	if !r.c.a.Single || h.Kind == ethertype.KindRDMARead || h.Kind == ethertype.KindReadData || h.Sack != 0 || !r.mayDeferAck(h.Ack) {
		return false
	}
	r.putOff(h.Ack)
	return true
}

// putOff notes an acknowledgement for CatchUp.
func (r *rxHalf) putOff(ack ethertype.Seq) {
	if !r.late.waits {
		r.c.a.deferred++
	}
	r.late = deferredAck{waits: true, ack: ack, at: r.c.a.Now}
}

// mayDeferAck reports whether nothing depends now on ack.
func (r *rxHalf) mayDeferAck(ack ethertype.Seq) bool {
	return !r.c.tx.unsent() && r.c.tx.sender.Covers(ack) && !r.receiver.AckDue(r.c.a.Now)
}

// CatchUp takes in the acknowledgements that were deferred. What it sends goes with the next flush.
func (a *Adapter) CatchUp() {
	if a.deferred > 0 { // seldom, and so the compiler inlines this
		a.catchUp()
	}
}

func (a *Adapter) catchUp() {
	for i := 0; i < len(a.touched); i++ { // none is left if one of them settles
		a.touched[i].rx.takeLate()
	}
	a.settle()
}

// takeLate takes in the acknowledgement that was deferred, if there is one: also before a frame that
// comes behind its own, and may have to be settled in this poll.
func (r *rxHalf) takeLate() {
	if r.late.waits {
		r.late.waits = false
		r.c.a.deferred--
		if progress, _ := r.c.tx.sender.OnAck(r.late.at, r.late.ack, 0, nil); progress && r.c.State == code.StateConnected {
			r.c.tx.completeAcked()
		}
	}
}

// settle finishes what a poll's frames began, once for each connection however many frames
// it got: window, acknowledgement, timers.
func (a *Adapter) settle() {
	for i, c := range a.touched {
		c.marks.touched = false
		a.touched[i] = nil
		if c.State == code.StateConnected {
			c.tx.pump()
			c.ackIfDue()
			c.arm()
		}
	}
	a.touched = a.touched[:0]
}

func (a *Adapter) touch(c *Conn) {
	if !c.marks.touched {
		c.marks.touched = true
		a.touched = append(a.touched, c)
	}
}

// Uncork is for callers that found nothing: messages that were corked for
// a fuller frame go out now.
func (a *Adapter) Uncork() {
	if len(a.corked) > 0 {
		a.uncork()
	}
}

func (a *Adapter) uncork() {
	a.Now = a.link.Now()
	k := len(a.corked)
	for _, c := range a.corked[:k] { // pump puts those back for which the link has no room
		c.marks.corked = false
		if c.State == code.StateConnected {
			c.tx.pump()
			c.arm()
		}
	}
	again := copy(a.corked, a.corked[k:])
	clear(a.corked[again:])
	a.corked = a.corked[:again]
	a.Flush()
}

// SendControl sends a frame that is not part of a connection's sequence. The
// caller fills destination, kind, ports, tag and flags.
func (a *Adapter) SendControl(h ethertype.Header, parts ...[]byte) {
	slot := a.slot()
	if slot == nil {
		a.Stats.TxDropped++
		return
	}
	h.Src, h.Type = a.info.MAC, a.info.EtherType
	h.Flags |= ethertype.FlagWholeCRC
	size := 0
	for _, p := range parts {
		size += copy(slot[ethertype.HeaderSize+size:], p)
	}
	h.Size = uint16(size)
	h.Put(slot)
	a.batch.Add(slot[:ethertype.HeaderSize+size], nil)
}
