package engine

import (
	"iter"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/reliability"
)

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
