package conn

import (
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/vipl/internal/code"
)

// What is sent, and when
//
// A connection sends in one loop, drive. Every event that can permit a frame runs it: a post, a
// poll of the program, received frames, a timer. In each round next decides what to send, removes
// it from the queues and numbers it; transmit builds the frame in the batch. When nothing more may
// be sent, the connection waits for one of three events:
//
// (1) a frame of the peer, which may open the window or answer a read;
//
// (2) its timer, which arm sets (see due): retransmission, pacing, delayed acknowledgement;
//
// (3) the next poll of the program (see leaveToPoll): the link is full, a message is corked, or an
// acknowledgement waits for the program's answer.
//
// Frames that belong to no queue bypass this loop, because nothing can delay them: keep-alive
// probes and their answers, path probes, and the frame that ends the connection.

// occasion is why a connection checks for frames to send.
type occasion uint8

const (
	onTurn   occasion = iota // a step of the engine: received frames, a timer, a poll
	onPost                   // a post, after which a short message may wait for others
	onSingle                 // a post whose frame will be the only one in flight
	onIdle                   // the program waits, and nothing has arrived
)

// outgoing is a frame that next has decided to send.
type outgoing struct {
	reliability.Sent
	seq   ethertype.Seq
	flags ethertype.Flags
}

// verdict is the decision of next.
type verdict uint8

const (
	sendNothing verdict = iota // nothing until a frame arrives or the timer is due
	sendAtPoll                 // nothing until the program polls
	sendNew                    // a new frame
	sendAgain                  // a retransmission
	sendAck                    // a separate acknowledgement
	sendDone                   // the fast path has added the only frame to the batch
)

// corkFrom is the number of frames in flight from which messages are corked. A corked message that
// does not fill a frame waits until the frame is full, a frame of the peer arrives, or the program
// polls.
const corkFrom = 2

// next decides what is sent now. Only ReceiveFast also decides this: it answers a short read at
// once. next chooses the first of these that applies:
//
//   - the only frame in flight, if it is a short one: the fast path;
//   - nothing, if the program has posted a message that can share a frame with the next ones;
//   - nothing, if the link is full;
//   - a lost frame, if the congestion window and the pace allow one;
//   - a new frame, if window and pace allow one: of the send queue or of the answer to a read, in
//     turns; a send behind a fence, and a read beyond the peer's limit, wait for earlier reads;
//   - an acknowledgement, if one is due and no frame has carried it: also an acknowledgement
//     that waits for the program's answer, if the program waits.
//
// If it is to be a new frame or a lost one, next describes it in o.
func (c *Conn) next(why occasion, o *outgoing) verdict {
	t, sh := &c.tx, c.shared
	switch {
	case why == onSingle && t.unsent() && c.sendFast():
		return sendDone
	case !c.Reliable:
		return t.nextLoose(o)
	case why == onPost && t.corks():
		return sendAtPoll
	case why == onPost:
		sh.ReadClock()
	}
	if unsent := t.unsent(); unsent || t.sender.InFlight() > 0 {
		if sh.Full() { // first, because Retransmit and Push record the frame as sent
			return sendAtPoll
		}
		if again, seq, ok := t.sender.Retransmit(sh.now); ok {
			*o = outgoing{*again, seq, ethertype.FlagRetry | ethertype.FlagAckNow}
			return sendAgain
		}
		if unsent && t.sender.Room(sh.now) > 0 && !t.longWindowFull() && t.cutNext(&o.Sent) {
			t.number(o, why == onSingle)
			return sendNew
		}
	}
	if r := &c.rx.receiver; (r.AckDue(sh.now) || why == onIdle && r.AckHeld()) && c.connected() {
		return sendAck
	}
	return sendNothing
}

// nextLoose is next for the unreliable level, which has no window and no acknowledgements. A send
// completes when the link has accepted its frames.
func (t *txHalf) nextLoose(o *outgoing) verdict {
	c, sh := t.c, t.c.shared
	if !t.unsent() {
		return sendNothing
	}
	if sh.Full() {
		return sendAtPoll
	}
	if !c.marks.unsent {
		c.marks.unsent = true
		sh.unsent = append(sh.unsent, c)
	}
	*o = outgoing{Sent: t.cut(), seq: c.loose.next}
	c.loose.next++
	return sendNew
}

// number numbers a new frame, and decides whether it requests an acknowledgement.
func (t *txHalf) number(o *outgoing, single bool) {
	var ask bool
	o.seq, ask = t.sender.Push(t.c.shared.now, o.Sent, single)
	long := t.long(o)
	if o.flags = 0; ask || o.Flags&sentAsks != 0 || long && t.sender.AskEach(longAsk) {
		o.flags = ethertype.FlagAckNow
	}
	switch p := &t.c.Path; {
	case long:
		p.useLong()
		p.countLong()
	case t.wantsLong(o):
		p.need.wants = true
	}
}

// long reports whether a frame is longer than the MTU.
func (t *txHalf) long(o *outgoing) bool { return int(o.Size) > t.c.Path.Data }

// unsent reports whether anything has never been sent.
func (t *txHalf) unsent() bool { return t.cursor.next != t.c.SQ.tail || t.c.serves.waiting > 0 }

// connected reports whether the connection exists.
func (c *Conn) connected() bool { return c.State == code.StateConnected }

// drive sends what may be sent now, and sets the timer. The caller flushes the batch and, except on
// a post, has read the clock.
func (c *Conn) drive(why occasion) {
	var o outgoing
	for c.connected() {
		what := c.next(why, &o)
		switch what {
		case sendDone:
			return
		case sendAtPoll:
			c.leaveToPoll()
		case sendAck:
			c.SendAck(0)
		case sendNew, sendAgain:
			if c.tx.transmit(&o, what == sendAgain) {
				if why == onPost {
					why = onTurn
				}
				continue
			}
		}
		break
	}
	if c.rx.receiver.AckHeld() && c.connected() {
		c.leaveToPoll()
	}
	if c.Path.need.wants && c.connected() {
		c.Path.askLong()
	}
	if why != onSingle {
		c.arm()
	}
}

// transmit builds a frame in the batch. It returns false if the link accepts no more now, or the
// connection has ended.
func (t *txHalf) transmit(o *outgoing, again bool) bool {
	switch {
	case again && t.long(o):
		t.c.Stats.Retransmits++
		return t.resendLong(&o.Sent, o.seq, o.flags)
	case again:
		t.c.Stats.Retransmits++
	case t.long(o) && t.c.Path.hole.Found: // of a write that began in long frames
		return t.sendPieces(&o.Sent, o.seq, o.flags)
	}
	return t.build(&o.Sent, o.seq, o.flags)
}

// sendPosted sends what a post has queued, and then runs the second half of the receive that the
// message may answer; see FinishReceives. If the decision what to send depends on that half, it
// runs first.
//
// A frame that is alone in flight is sent before the clock is read, because reading the clock takes
// a fiftieth of the frame's time.
func (c *Conn) sendPosted() {
	sh, t := c.shared, &c.tx
	why := onPost
	if t.single() {
		why = onSingle
	} else if t.sender.InFlight() >= corkFrom {
		sh.FinishReceives() // fewer frames may be in flight than recorded
	}
	c.drive(why)
	if sh.batch.Len() > 0 {
		sh.flushFirst()
		if why == onSingle {
			sh.ReadClock()
			t.sender.Stamp(sh.now)
		}
		sh.FlushPending() // frames of the second half
	}
	if why == onSingle {
		c.arm()
	}
}

// single reports whether the unsent data are one frame, and no other frame will be in flight with
// it.
func (t *txHalf) single() bool {
	next := &t.cursor
	if !t.c.Reliable || next.next+1 != t.c.SQ.tail || next.offset > 0 || t.c.serves.waiting > 0 {
		return false
	}
	if d := t.c.SQ.at(next.next); int(d.total) > t.c.Path.MaxData-d.extension() {
		return false
	}
	return t.sender.InFlight() == 0 || t.c.rx.late.waits && t.c.rx.late.ack == t.sender.NextSeq()
}

// corks reports whether the unsent data wait for more messages to share their frames.
func (t *txHalf) corks() bool {
	return t.sender.InFlight() >= corkFrom && t.cursor.next != t.c.SQ.tail && t.roomLeft()
}

// leaveToPoll records that the connection has something to send at the program's next poll.
func (c *Conn) leaveToPoll() {
	if !c.marks.corked {
		c.marks.corked = true
		c.shared.corked = append(c.shared.corked, c)
	}
}
