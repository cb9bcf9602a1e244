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

// TimeWait holds the connections that this side has left.
type TimeWait struct {
	m     *Machine
	table endedTable
	gate  progress.Gate // opens when all their peers have been notified
}

const (
	timeWaitMax = 1024        // connections; more only if a NIC with more VIs closes
	closeFirst  = 2_000_000   // ns until a peer is notified again, doubling up to closeEach
	closeEach   = 32_000_000  // ns
	closeMax    = 250_000_000 // ns; limit for closing a NIC
)

// Add moves a connection to time-wait, which its owner leaves for the given reason. known means
// that its peer has been notified.
func (t *TimeWait) Add(c *conn.Conn, why code.Reason, known bool) {
	t.table.Add(endedConn{
		Header: c.LastWord(), Why: byte(why), LocalTag: c.LocalTag, Port: c.Port,
		At: t.m.Now(), Known: known, Unreliable: !c.Reliable,
	}, max(timeWaitMax, t.m.Ports.Count))
}

// answer answers h if it belongs to a connection in time-wait, and reports whether no further
// answer is needed.
func (t *TimeWait) answer(h *ethertype.Header) bool {
	before := t.table.Waiting()
	answer, ended := t.table.Answer(h)
	t.openIfAllKnow(before)
	if answer == answerAgain && t.m.Strangers.Answers.Allow(guard.Reset, t.m.Now()) {
		t.m.SendControl(ended.Header, []byte{ended.Why})
	}
	return answer != answerStranger
}

// confirm records that the peer of a connection knows of its end: h is its answer to a frame with
// the given tag. It reports whether there is such a connection.
func (t *TimeWait) confirm(h *ethertype.Header, tag uint32) bool {
	before := t.table.Waiting()
	ok := t.table.Confirm(h, tag)
	t.openIfAllKnow(before)
	return ok
}

// openIfAllKnow wakes the closing NIC if all peers now know, and did not before.
func (t *TimeWait) openIfAllKnow(before int) {
	if before > 0 && t.table.Waiting() == 0 {
		t.gate.Open(t.m.eng)
	}
}

// TellAll keeps a closing NIC answering until every peer of its former connections knows of the
// end, and notifies the others repeatedly. Otherwise a peer that lost the notification would wait
// for its PeerTimeout, because no one would answer it, and would consider its last messages lost.
// Peers of connections that ended more than life nanoseconds ago have detected the end by
// themselves.
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

// tellAgain notifies the peers that may not know of the end.
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
	Header     ethertype.Header // of the frame that notifies the peer, with the last numbers of the connection
	Why        byte             // the reason in that frame
	LocalTag   uint32           // tag of the peer's frames
	Port       uint16           // destination of the peer's frames
	At         int64            // time of the end, in nanoseconds
	Known      bool             // the peer knows
	Unreliable bool             // the peer's numbers are not known
}

// endedTable holds connections that have ended, for peers that may not know it yet: TIME-WAIT, as
// in TCP (RFC 9293, section 3.5). It grows to a limit; then the oldest entry is removed. It is
// pure: it sends nothing and reads no clock.
//
// A peer that still sends gets the last acknowledgement and the reason of the end. Messages that it
// sent in time then count as delivered, and the others fail with the right cause. A peer that knows
// of the end confirms it.
type endedTable struct {
	ring    []endedConn
	next    int            // the oldest
	local   map[uint32]int // index in ring, by the tag of the peer's frames
	remote  map[uint32]int // index in ring, by the tag of this side's frames
	waiting int            // number of connections whose peers may not know
}

// lateAnswer is the answer to a frame of a peer.
type lateAnswer uint8

// The answers.
const (
	answerStranger lateAnswer = iota // no connection in the table, or the peer already knows: report that there is none
	answerNothing                    // not a genuine frame of the connection that it names
	answerAgain                      // the peer does not know: repeat the notification
)

// Add adds e. The table holds at most limit entries.
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

// displace removes the entry at a place.
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

// Waiting returns the number of connections whose peers may not know of the end.
func (t *endedTable) Waiting() int { return t.waiting }

// Answer returns the answer to h, a frame that belongs to no existing connection. For answerAgain
// it also returns the ended connection.
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

// Confirm records that the peer of a connection knows: h is its answer to a frame with the given
// tag. It reports whether there is such a connection.
func (t *endedTable) Confirm(h *ethertype.Header, tag uint32) bool {
	at, ok := t.remote[tag]
	if !ok || !t.ring[at].between(h) || !t.ring[at].genuine(h) {
		return false
	}
	t.know(&t.ring[at])
	return true
}

// Expire marks connections that ended before a time as known to their peers.
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

// between reports whether h was sent by the connection's peer to its port here.
func (e *endedConn) between(h *ethertype.Header) bool {
	return e.Port == h.DstPort && e.Header.Dst == h.Src && e.Header.DstPort == h.SrcPort
}

// genuine reports whether h acknowledges only what the peer may have received, and has a sequence
// number near the expected one. Frames of live connections pass the same check.
func (e *endedConn) genuine(h *ethertype.Header) bool {
	const w = reliability.MaxWindow
	acked, ahead := h.Ack.Sub(e.Header.Seq), h.Seq.Sub(e.Header.Ack)
	return -w <= acked && acked <= 0 && (-w <= ahead && ahead <= w || e.Unreliable)
}
