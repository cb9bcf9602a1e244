package unreliable

import (
	"math/bits"
	"time"
)

// Classes of numbered messages: requests and replies are numbered apart (rule 1).
const (
	request = iota
	reply
	classes
)

const (
	// firstNumber is that of the first message of each class. Numbers wrap around; they
	// begin so that every program does.
	firstNumber = ^uint32(0) - 99
	// timeout is after how long a message is sent again of which nothing was heard, a fairly
	// high one, as the paper wants it (rule 6). It doubles with each try, up to maxTimeout.
	timeout    = int64(20 * time.Millisecond)
	maxTimeout = int64(320 * time.Millisecond)
	// ackDelay is how long a rank that has something to acknowledge waits for a message to
	// do it with.
	ackDelay = int64(5 * time.Millisecond)
	// gapDelay is the time between two words of a rank about what it lacks, and how old a
	// message must be to be sent again because of one: what has been overtaken is not lost.
	gapDelay = int64(time.Millisecond)
	// probe is how many messages of a class are sent again because nothing was heard: as many
	// as share a frame. If they were lost, an answer shows what else was; if the other rank
	// computes, the others need not be sent in vain.
	probe = share
)

// window is the state of one channel between two ranks (paper, 5.4): a sliding window
// merged with the credits. It is pure: numbers and times go in, and what to do comes out.
//
// An acknowledgement is the number of the first message that is not processed yet. It says
// also that the buffers of those before it are free, and so it is what credits are (rules
// 2 and 4).
type window struct {
	size  uint32 // messages of a class under way at the most: a power of two
	out   [classes]stream
	in    [classes]uint32 // the first number that is not processed
	have  [classes]uint64 // which messages from there on are held: bit i is of number in+i
	gapAt int64           // when the other rank may be told again of what is missing
	pause int64           // until then, from when it was told last: it doubles while nothing comes
	owed  uint32          // messages processed since the last one was sent back
	since int64           // when the first of them was
	again bool            // a message has come again: what was acknowledged has been lost
}

// stream is what is sent of a class.
type stream struct {
	first, next uint32 // that is not acknowledged; to be sent
	sent        []sending
}

// sending is a message under way.
type sending struct {
	at    int64 // when it was sent last
	tries uint8 // how often again
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

// add sends a message of a class, and returns its number. The window is not full.
func (w *window) add(class int, now int64) uint32 {
	s := &w.out[class]
	n := s.next
	s.next++
	s.sent[w.place(n)] = sending{at: now}
	return n
}

// acknowledged takes an acknowledgement. It reports false, and does nothing, if it is of
// what was never sent. An old one, which a later one has overtaken, is none.
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

// What arrives is.
type arrival uint8

const (
	fresh   arrival = iota // new: it is held until its turn has come
	repeats                // one that was processed
	outside                // ahead of all that may be under way
)

// arrived judges a number.
func (w *window) arrived(class int, n uint32) arrival {
	ahead := n - w.in[class]
	switch {
	case ahead < w.size:
		w.have[class] |= 1 << ahead
		return fresh
	case int32(ahead) < 0:
		w.again = w.again || -ahead <= w.size // of older ones the sender has heard
		return repeats
	}
	return outside
}

// processed notes that the next message of a class is done.
func (w *window) processed(class int, now int64) {
	w.in[class]++
	w.have[class] >>= 1
	w.pause = 0
	if w.owed++; w.owed == 1 {
		w.since = now
	}
}

// acks returns what every message acknowledges, and notes that one is sent.
func (w *window) acks() (ofRequests, ofReplies uint32) {
	w.owed, w.again = 0, false
	return w.in[request], w.in[reply]
}

// lacks reports whether a message is missing, and a later one of its class is held.
func (w *window) lacks() bool {
	return w.have[request]&1 == 0 && w.have[request] != 0 || w.have[reply]&1 == 0 && w.have[reply] != 0
}

// speaks reports whether the no-op reply is due: a quarter of the window is processed and
// nothing was sent back (rule 5), or it was long ago, or a message has come again, or one is
// missing.
func (w *window) speaks(now int64) bool {
	return w.owed >= w.size/4 || w.again || w.owed > 0 && now-w.since >= ackDelay || w.lacks() && now >= w.gapAt
}

// holds returns which messages are held, for the no-op reply, and notes that it is sent.
func (w *window) holds(now int64) [classes]uint64 {
	w.pause = min(max(gapDelay, 2*w.pause), maxTimeout)
	w.gapAt = now + w.pause
	return w.have
}

// missing returns the first message of a class from number n on that the other rank lacks
// while it holds a later one, and notes that it is sent again. The other rank has said so in
// one message: base is what it has acknowledged there, and have what it holds from base on.
func (w *window) missing(class int, base uint32, have uint64, n uint32, now int64) (uint32, bool) {
	s := &w.out[class]
	if base != s.first { // it has said more since
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

// overdue returns the first message of a class from number n on that is to be sent again
// now because nothing was heard of it, and notes that it is.
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

// quiet reports whether all that was sent is acknowledged.
func (w *window) quiet() bool {
	return w.out[request].first == w.out[request].next && w.out[reply].first == w.out[reply].next
}
