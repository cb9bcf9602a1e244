package engine

import (
	"context"
	"iter"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/progress"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/vipl/internal/code"
	"github.com/bobnet-go/bobnet/vipl/internal/conn"
	"github.com/bobnet-go/bobnet/vipl/internal/guard"
)

// TimeWait has the connections that this side has left.
type TimeWait struct {
	m     *Machine
	table endedTable
	gate  progress.Gate // opens when all their peers know
}

const (
	timeWaitMax = 1024        // connections; more only if a NIC with more VIs closes
	closeFirst  = 2_000_000   // ns until a peer is told again of the end, doubling up to closeEach
	closeEach   = 32_000_000  // ns
	closeMax    = 250_000_000 // ns that a NIC takes to close
)

// Add puts a connection, which its owner leaves for the given reason, into time-wait. known
// says that its peer knows.
func (t *TimeWait) Add(c *conn.Conn, why code.Reason, known bool) {
	t.table.Add(endedConn{
		Header: c.LastWord(), Why: byte(why), LocalTag: c.LocalTag, Port: c.Port,
		At: t.m.Now(), Known: known, Unreliable: !c.Reliable,
	}, max(timeWaitMax, t.m.Ports.Count))
}

// answer answers h if it belongs to a connection in time-wait, and reports whether that is
// all that is to be said.
func (t *TimeWait) answer(h *ethertype.Header) bool {
	before := t.table.Waiting()
	answer, ended := t.table.Answer(h)
	t.openIfAllKnow(before)
	if answer == answerAgain && t.m.Strangers.Answers.Allow(guard.Reset, t.m.Now()) {
		t.m.SendControl(ended.Header, []byte{ended.Why})
	}
	return answer != answerStranger
}

// confirm notes that the peer of a connection knows of its end: h is its answer to a frame
// with the given tag. It reports whether there is such a connection.
func (t *TimeWait) confirm(h *ethertype.Header, tag uint32) bool {
	before := t.table.Waiting()
	ok := t.table.Confirm(h, tag)
	t.openIfAllKnow(before)
	return ok
}

// openIfAllKnow wakes the closing NIC if all peers know now, and did not before.
func (t *TimeWait) openIfAllKnow(before int) {
	if before > 0 && t.table.Waiting() == 0 {
		t.gate.Open(t.m.eng)
	}
}

// TellAll keeps a NIC that closes answering until every peer of a connection that
// it has left knows of that, and tells those again that may not. Without it a
// peer that has lost the word of the end would wait for its PeerTimeout, because nobody is
// left to answer it, and take its last messages for lost. What has ended longer ago than life,
// in ns, its peer has found out by itself.
func (t *TimeWait) TellAll(life int64) {
	m := t.m
	m.ReadClock()
	t.table.Expire(m.Now() - life)
	if m.Info.Virtual && m.eng.Led() {
		return // another process waits on the station, and would have to run first
	}
	w := m.eng.Begin(context.Background())
	defer m.eng.End(&w)
	end := m.Now() + closeMax
	waits := func() bool { return t.table.Waiting() > 0 && m.health.failed == nil }
	for each := int64(closeFirst); waits() && m.Now() < end; each = min(2*each, closeEach) {
		until := min(m.Now()+each, end)
		w.Until(until)
		for waits() && m.Now() < until && m.eng.Wait(&w, &t.gate) == nil {
		}
		t.tellAgain()
	}
}

// tellAgain tells the peers that may not know that their connections are over.
func (t *TimeWait) tellAgain() {
	for ended := range t.table.Unknown() {
		if !t.m.Full() {
			t.m.SendControl(ended.Header, []byte{ended.Why})
		}
	}
	t.m.Flush()
}

// endedConn is a connection that has ended.
type endedConn struct {
	Header     ethertype.Header // of the frame that tells the peer so, with the last numbers of the connection
	Why        byte             // that the frame gives
	LocalTag   uint32           // that the peer's frames carry
	Port       uint16           // to which they go
	At         int64            // when, in nanoseconds
	Known      bool             // the peer knows
	Unreliable bool             // how far the peer's numbers went is not known
}

// endedTable keeps connections that have ended, for peers that may not know it yet: TIME-WAIT, as
// in TCP (RFC 9293, section 3.5). It grows to a limit; then the oldest entry goes. It is pure: it
// sends nothing and reads no clock.
//
// A peer that still sends gets the last acknowledgement and the reason of the end. Messages that
// it sent in time then count as delivered, and the others fail for the right cause. A peer that
// knows confirms it.
type endedTable struct {
	ring    []endedConn
	next    int            // the oldest
	local   map[uint32]int // places in ring, by the tag of the peer's frames
	remote  map[uint32]int // and by the tag of ours
	waiting int            // how many of whose peers may not know
}

// lateAnswer is what a frame of a peer is to be answered by.
type lateAnswer uint8

// The answers.
const (
	answerStranger lateAnswer = iota // it is of no connection in the table, or of one whose peer knows now: that there is none
	answerNothing                    // it claims to be of one and is not
	answerAgain                      // the peer has not heard: the same as before
)

// Add adds e, at most so many in all.
func (t *endedTable) Add(e endedConn, limit int) {
	if t.local == nil {
		t.local, t.remote = map[uint32]int{}, map[uint32]int{}
	}
	at := len(t.ring)
	if at < limit {
		t.ring = append(t.ring, endedConn{})
	} else {
		at = t.next
		t.next = (at + 1) % len(t.ring)
		t.displace(at)
	}
	t.ring[at] = e
	t.local[e.LocalTag], t.remote[e.Header.Tag] = at, at
	if !e.Known {
		t.waiting++
	}
}

// displace forgets what is at a place.
func (t *endedTable) displace(at int) {
	e := &t.ring[at]
	if t.local[e.LocalTag] == at {
		delete(t.local, e.LocalTag)
	}
	if t.remote[e.Header.Tag] == at {
		delete(t.remote, e.Header.Tag)
	}
	if !e.Known {
		t.waiting--
	}
}

// Waiting returns how many connections there are whose peers may not know of the end.
func (t *endedTable) Waiting() int { return t.waiting }

// Answer returns how h, a frame of no connection that there is, is to be answered. The
// connection is that which it belongs to if the answer is answerAgain.
func (t *endedTable) Answer(h *ethertype.Header) (lateAnswer, *endedConn) {
	at, ok := t.local[h.Tag]
	if !ok || !t.ring[at].between(h) {
		return answerStranger, nil
	}
	e := &t.ring[at]
	switch {
	case !e.genuine(h):
		return answerNothing, nil
	case h.Kind == ethertype.KindDisconnect: // it has ended the connection, too
		t.know(e)
		return answerStranger, nil
	}
	return answerAgain, e
}

// Confirm notes that the peer of a connection knows: h is its answer to a frame with the
// given tag. It reports whether there is such a connection.
func (t *endedTable) Confirm(h *ethertype.Header, tag uint32) bool {
	at, ok := t.remote[tag]
	if !ok || !t.ring[at].between(h) || !t.ring[at].genuine(h) {
		return false
	}
	t.know(&t.ring[at])
	return true
}

// Expire takes it that the peers know of what ended before a time.
func (t *endedTable) Expire(before int64) {
	for i := range t.ring {
		if e := &t.ring[i]; e.At < before {
			t.know(e)
		}
	}
}

// Unknown yields the connections whose peers may not know.
func (t *endedTable) Unknown() iter.Seq[*endedConn] {
	return func(yield func(*endedConn) bool) {
		for i := range t.ring {
			if e := &t.ring[i]; !e.Known && !yield(e) {
				return
			}
		}
	}
}

func (t *endedTable) know(e *endedConn) {
	if !e.Known {
		e.Known = true
		t.waiting--
	}
}

// between reports whether h came from the connection's peer to its port here.
func (e *endedConn) between(h *ethertype.Header) bool {
	return e.Port == h.DstPort && e.Header.Dst == h.Src && e.Header.DstPort == h.SrcPort
}

// genuine reports whether h says what the peer may have received, and its number is near
// that which was expected of it: what is asked of frames of a connection, too.
func (e *endedConn) genuine(h *ethertype.Header) bool {
	const w = reliability.MaxWindow
	acked, ahead := h.Ack.Sub(e.Header.Seq), h.Seq.Sub(e.Header.Ack)
	return -w <= acked && acked <= 0 && (-w <= ahead && ahead <= w || e.Unreliable)
}
