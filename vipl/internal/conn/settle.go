package conn

import (
	"github.com/bobnet-go/bobnet/ethertype"
)

// The two halves of a receive
//
// The first half places the data of a frame, completes the descriptor and opens the gate of the
// goroutine that waits for it. The second half handles what the frame acknowledges: it completes
// sends, sends what the window then allows, acknowledges, and sets the timer. It runs once for each
// connection, however many frames of a poll were for it (settle).
//
// If a frame comes alone and in order, and nothing depends on its acknowledgement, the second half
// is deferred: the program goes first. This saves a tenth of the time of a ping-pong. The second
// half then runs in the first of these places (FinishReceives):
//
//   - behind the frame by which the program answers (flushFirst), or before it if what may leave
//     depends on it (sendPosted);
//   - at the next poll (SetClock), or when no goroutine polls (the engine's Idle);
//   - before a connection ends, and before a caller looks at its state.

// deferredAck is the acknowledgement of a receive whose second half is deferred.
type deferredAck struct {
	waits bool // there is one; the connection is touched
	ack   ethertype.Seq
	at    int64 // when the frame came
}

// deferAck defers the second half of a receive that acknowledges ack.
func (r *rxHalf) deferAck(ack ethertype.Seq) {
	if !r.late.waits {
		r.c.a.deferred++
	}
	r.late = deferredAck{waits: true, ack: ack, at: r.c.a.Now}
}

// mayDeferAck reports whether nothing depends now on ack.
func (r *rxHalf) mayDeferAck(ack ethertype.Seq) bool {
	return !r.c.tx.unsent() && r.c.tx.sender.Covers(ack) && !r.receiver.AckDue(r.c.a.Now)
}

// FinishReceives runs the second half of the receives that were deferred. What it sends leaves with
// the next flush.
func (a *Adapter) FinishReceives() {
	if a.deferred > 0 { // rare; the compiler inlines this test
		a.finishReceives()
	}
}

func (a *Adapter) finishReceives() {
	for i := 0; i < len(a.touched); i++ { // none is left if one of them settles
		a.touched[i].rx.applyDeferredAck()
	}
	a.settle()
}

// flushFirst hands the batch to the link, and then runs the second half of the receives that
// waited for these frames to leave.
func (a *Adapter) flushFirst() {
	a.Flush()
	a.FinishReceives()
}

// applyDeferredAck applies the acknowledgement that was deferred, if there is one: also before a
// later frame, which may have to be settled in this poll.
func (r *rxHalf) applyDeferredAck() {
	if r.late.waits {
		r.late.waits = false
		r.c.a.deferred--
		if progress, _ := r.c.tx.sender.OnAck(r.late.at, r.late.ack, 0, nil); progress && r.c.connected() {
			r.c.tx.completeAcked()
		}
	}
}

// settle runs the second half of the receives of a poll, once for each connection.
func (a *Adapter) settle() {
	for i, c := range a.touched {
		c.marks.touched = false
		a.touched[i] = nil
		c.drive(onTurn)
	}
	a.touched = a.touched[:0]
}

func (a *Adapter) touch(c *Conn) {
	if !c.marks.touched {
		c.marks.touched = true
		a.touched = append(a.touched, c)
	}
}

// Uncork sends the messages that were left to the program's poll; see sendAtPoll. Callers that have
// found nothing to receive call it.
func (a *Adapter) Uncork() {
	if len(a.corked) > 0 {
		a.uncork()
	}
}

func (a *Adapter) uncork() {
	a.Now = a.link.Now()
	k := len(a.corked)
	for _, c := range a.corked[:k] { // drive puts those back for which the link has no room
		c.marks.corked = false
		c.drive(onTurn)
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
