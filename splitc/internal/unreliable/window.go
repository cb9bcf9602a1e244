package unreliable

import (
	"math/bits"
	"time"
)

// Classes of numbered messages: requests and replies are numbered separately (rule 1).
const (
	request = iota
	reply
	classes
)

const (
	// firstNumber is the number of the first message of each class. It is chosen so that numbers
	// wrap around in every program.
	firstNumber = ^uint32(0) - 99
	// timeout is the retransmission timeout in nanoseconds, a fairly long one, as the paper
	// requires (rule 6). It doubles with each try, up to maxTimeout.
	timeout    = int64(20 * time.Millisecond)
	maxTimeout = int64(320 * time.Millisecond)
	// ackDelay is how long a rank waits for a message that can carry an acknowledgement.
	ackDelay = int64(5 * time.Millisecond)
	// gapDelay is the time between two reports of missing messages by a rank. It is also the
	// minimum age of a message that is sent again because of a report: a reordered message is not
	// lost.
	gapDelay = int64(time.Millisecond)
	// probe is how many messages of a class are sent again after a timeout: as many as share a
	// frame. If they were lost, an answer shows what else was. If the other rank computes, sending
	// the others would be useless.
	probe = share
)

// window is the state of one channel between two ranks (paper, 5.4): a sliding window that also
// implements the credits. It is pure: numbers and times are its input, and actions its output.
//
// An acknowledgement is the number of the first message that is not processed yet. It also means
// that the buffers of earlier messages are free, so it returns credits (rules 2 and 4).
type window struct {
	size  uint32 // most messages of a class in flight: a power of two
	out   [classes]stream
	in    [classes]uint32 // the first number that is not processed
	have  [classes]uint64 // messages held from there on: bit i is for number in+i
	gapAt int64           // time of the next report of missing messages
	pause int64           // its distance from the last one: it doubles while nothing arrives
	owed  uint32          // messages processed since the last message was sent back
	since int64           // when the first of them was processed
	again bool            // a duplicate has arrived: its acknowledgement was lost
}

// stream is the sending state of a class.
type stream struct {
	first, next uint32 // first number not acknowledged; next number to send
	sent        []sending
}

// sending is a message in flight.
type sending struct {
	at    int64 // time of the last transmission
	tries uint8 // number of retransmissions
}

func newWindow(size int) window {
	w := window{size: uint32(size)}
	for c := range w.out {
		w.in[c] = firstNumber
		w.out[c] = stream{firstNumber, firstNumber, make([]sending, size)}
	}
	return w
}

// place returns the place of a number in rings of the window's size.
func (w *window) place(n uint32) int { return int(n % w.size) }

// full reports whether no message of a class may be sent.
func (w *window) full(class int) bool {
	s := &w.out[class]
	return s.next-s.first >= w.size
}

// assignNumber assigns the next number of a class to a message that is sent now. The window must not be full.
func (w *window) assignNumber(class int, now int64) uint32 {
	s := &w.out[class]
	n := s.next
	s.next++
	s.sent[w.place(n)] = sending{at: now}
	return n
}

// acknowledged processes an acknowledgement. It returns false and does nothing if the message was
// never sent. An old acknowledgement, which a later one has overtaken, has no effect.
func (w *window) acknowledged(class int, ack uint32) bool {
	s := &w.out[class]
	if int32(ack-s.next) > 0 {
		return false
	}
	if int32(ack-s.first) > 0 {
		s.first = ack
	}
	return true
}

// arrival is the classification of an arrived number.
type arrival uint8

const (
	fresh   arrival = iota // new: it is held until its turn
	repeats                // already processed
	outside                // ahead of the window
)

// arrived classifies a number.
func (w *window) arrived(class int, n uint32) arrival {
	ahead := n - w.in[class]
	switch {
	case ahead < w.size:
		w.have[class] |= 1 << ahead
		return fresh
	case int32(ahead) < 0:
		w.again = w.again || -ahead <= w.size // the sender has the acknowledgement of older ones
		return repeats
	}
	return outside
}

// processed records that the next message of a class is processed.
func (w *window) processed(class int, now int64) {
	w.in[class]++
	w.have[class] >>= 1
	w.pause = 0
	if w.owed++; w.owed == 1 {
		w.since = now
	}
}

// acks returns the acknowledgements for every message, and records that one is sent.
func (w *window) acks() (ofRequests, ofReplies uint32) {
	w.owed, w.again = 0, false
	return w.in[request], w.in[reply]
}

// lacks reports whether a message is missing, and a later one of its class is held.
func (w *window) lacks() bool {
	return w.have[request]&1 == 0 && w.have[request] != 0 || w.have[reply]&1 == 0 && w.have[reply] != 0
}

// speaks reports whether the no-op reply is due. It is due if a quarter of the window is processed
// and no message was sent back (rule 5), or after a long time, a duplicate, or a missing message.
func (w *window) speaks(now int64) bool {
	return w.owed >= w.size/4 || w.again || w.owed > 0 && now-w.since >= ackDelay || w.lacks() && now >= w.gapAt
}

// holds returns the held messages for the no-op reply, and records that it is sent.
func (w *window) holds(now int64) [classes]uint64 {
	w.pause = min(max(gapDelay, 2*w.pause), maxTimeout)
	w.gapAt = now + w.pause
	return w.have
}

// missing returns the first message of a class, from number n on, that the other rank misses while
// it holds a later one. It records that the message is sent again. The other rank has reported this
// in one message: base is its acknowledgement there, and have the messages it holds from base on.
func (w *window) missing(class int, base uint32, have uint64, n uint32, now int64) (uint32, bool) {
	s := &w.out[class]
	if base != s.first { // it has acknowledged more since
		return 0, false
	}
	for end := base + uint32(bits.Len64(have)); n != s.next && int32(n-end) < 0; n++ {
		m := &s.sent[w.place(n)]
		if have>>(n-base)&1 == 0 && now-m.at >= gapDelay {
			m.at = now
			return n, true
		}
	}
	return 0, false
}

// overdue returns the first message of a class, from number n on, whose retransmission timeout has
// expired, and records that it is sent again.
func (w *window) overdue(class int, n uint32, now int64) (uint32, bool) {
	s := &w.out[class]
	if int32(n-s.first) < 0 {
		n = s.first
	}
	for ; n != s.next && n-s.first < min(probe, w.size/4); n++ {
		m := &s.sent[w.place(n)]
		if now-m.at >= min(timeout<<min(m.tries, 8), maxTimeout) {
			m.at = now
			m.tries = min(m.tries+1, 8)
			return n, true
		}
	}
	return 0, false
}

// quiet reports whether everything sent is acknowledged.
func (w *window) quiet() bool {
	return w.out[request].first == w.out[request].next && w.out[reply].first == w.out[reply].next
}
