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
//   - behind the frame by which the program answers (flushFirst), or before that frame if the
//     decision what to send depends on the second half (sendPosted);
//   - at the next poll (SetClock), or when no goroutine polls (the engine's Idle);
//   - before a connection ends, and before a caller looks at its state.

// deferredAck is the acknowledgement of a receive whose second half is deferred.
type deferredAck struct {
	waits bool // there is one; the connection is in touched
	ack   ethertype.Seq
	at    int64 // when the frame arrived
}

// deferAck defers the second half of a receive that acknowledges ack.
func (r *rxHalf) deferAck(ack ethertype.Seq) {
	if !r.late.waits {
		r.c.shared.deferred++
	}
	r.late = deferredAck{waits: true, ack: ack, at: r.c.shared.now}
}

// mayDeferAck reports whether nothing currently depends on ack.
func (r *rxHalf) mayDeferAck(ack ethertype.Seq) bool {
	return !r.c.tx.unsent() && r.c.tx.sender.Covers(ack) && !r.receiver.AckDue(r.c.shared.now)
}

// FinishReceives runs the deferred second halves. Their frames are sent by the next flush.
func (sh *Shared) FinishReceives() {
	if sh.deferred > 0 { // rare; the compiler inlines this test
		sh.finishReceives()
	}
}

func (sh *Shared) finishReceives() {
	for i := 0; i < len(sh.touched); i++ { // none is left if one of them calls settle
		sh.touched[i].rx.applyDeferredAck()
	}
	sh.settle()
}

// flushFirst hands the batch to the link, and then runs the second half of the receives that were
// deferred for these frames.
func (sh *Shared) flushFirst() {
	sh.Flush()
	sh.FinishReceives()
}

// applyDeferredAck applies a deferred acknowledgement. It is also called before a later frame,
// which may have to be settled in this poll.
func (r *rxHalf) applyDeferredAck() {
	if r.late.waits {
		r.late.waits = false
		r.c.shared.deferred--
		if progress, _ := r.c.tx.sender.OnAck(r.late.at, r.late.ack, 0, nil); progress && r.c.connected() {
			r.c.tx.completeAcked()
		}
	}
}

// settle runs the second half of the receives of a poll, once for each connection.
func (sh *Shared) settle() {
	for i, c := range sh.touched {
		c.marks.touched = false
		sh.touched[i] = nil
		c.drive(onTurn)
	}
	sh.touched = sh.touched[:0]
}

func (sh *Shared) touch(c *Conn) {
	if !c.marks.touched {
		c.marks.touched = true
		sh.touched = append(sh.touched, c)
	}
}

// Uncork sends what was left to the program's poll: messages (see sendAtPoll) and acknowledgements
// (see reliability.Receiver.AckHeld). Callers that have received nothing call it.
func (sh *Shared) Uncork() {
	if len(sh.corked) > 0 {
		sh.uncork()
	}
}

func (sh *Shared) uncork() {
	sh.ReadClock()
	k := len(sh.corked)
	for _, c := range sh.corked[:k] { // drive adds connections again for which the link has no room
		c.marks.corked = false
		c.drive(onIdle)
	}
	again := copy(sh.corked, sh.corked[k:])
	clear(sh.corked[again:])
	sh.corked = sh.corked[:again]
	sh.Flush()
}

// SendControl sends a frame that is not part of a connection's sequence. The
// caller fills destination, kind, ports, tag and flags.
func (sh *Shared) SendControl(h ethertype.Header, parts ...[]byte) {
	slot := sh.slot()
	if slot == nil {
		sh.stats.TxDropped++
		return
	}
	h.Src, h.Type = sh.info.MAC, sh.info.EtherType
	h.Flags |= ethertype.FlagWholeCRC
	size := 0
	for _, p := range parts {
		size += copy(slot[ethertype.HeaderSize+size:], p)
	}
	h.Size = uint16(size)
	h.Put(slot)
	sh.batch.Add(slot[:ethertype.HeaderSize+size], nil, nil)
}
