package mplite

import (
	"encoding/binary"
	"slices"
	"time"
)

// A rank may wait in a collective for longer than askAfter. Then it sends its own signature to the
// rank that it waits for, and so asks which call that rank makes under this number. If both agree,
// nothing follows. Without such questions, two ranks that each take the other for the root of a
// broadcast would wait for ever, because neither sends.

const (
	askAfter = 100 * time.Millisecond
	askSteps = 4096 // events for others that count as much
	maxAsked = 1024
)

// question is a question that arrived before this rank made the call.
type question struct {
	context uint32
	turn    int32
	src     int32 // in the job's first communicator
	sig     callSig
}

// patience returns how long a step may wait before the rank asks; 0 if there is nothing to ask.
func (w *world) patience() time.Duration {
	if len(w.later) > 0 {
		return dialPause
	}
	if w.unasked == 0 {
		return 0
	}
	return askAfter
}

// stepped counts a step, and asks when it is time.
func (w *world) stepped(late bool) {
	if w.unasked == 0 {
		w.steps = 0
		return
	}
	if w.steps++; !late && w.steps < askSteps {
		return
	}
	w.steps = 0
	for _, r := range w.requests {
		if !r.coll || r.asked || r.state == stateFree || r.state == stateDone {
			continue
		}
		w.stopAsking(r)
		p := r.peer
		if r.state == recvMeet && r.env.src == int32(w.rank) {
			continue
		}
		if r.state == recvMeet || r.state == recvPosted {
			p = w.peer(int(r.env.src))
		}
		body := make([]byte, askSize)
		binary.LittleEndian.PutUint64(body, r.call)
		p.say(control{kind: kindAsk, context: r.c.context, tag: r.env.tag, recvID: r.typ.sig, body: body})
	}
}

const askSize = 8

// stopAsking ends the questions about r.
func (w *world) stopAsking(r *request) {
	if r.coll && !r.asked {
		r.asked = true
		w.unasked--
	}
}

// inquired compares another rank's call with this rank's, now or when this rank makes it.
func (p *peer) inquired(h *header, body []byte) {
	w := p.w
	q := question{h.context, h.tag, int32(p.rank), callSig{binary.LittleEndian.Uint64(body), h.recvID}}
	c := w.comms[h.context]
	if c == nil || before(c.log.turn, q.turn) {
		if len(w.questions) < maxAsked {
			w.questions = append(w.questions, q)
		} else {
			w.stats.Strays++
		}
		return
	}
	if mine, ok := c.log.at(q.turn); ok && c.contains(p.rank) && mine.differs(q.sig) {
		c.differ(q.turn, mine, q.sig, c.index[p.rank], "", nil)
	}
}

// compareAsked compares the latest call of c with the questions about it.
func (w *world) compareAsked(c *Comm, mine callSig) error {
	if len(w.questions) == 0 {
		return nil
	}
	var odd *question
	turn := c.log.turn
	w.questions = slices.DeleteFunc(w.questions, func(q question) bool {
		if q.context != c.context || before(turn, q.turn) {
			return false
		}
		if q.turn == turn && c.contains(int(q.src)) && mine.differs(q.sig) {
			odd = &q
		}
		return true
	})
	if odd == nil {
		return nil
	}
	return c.differ(turn, mine, odd.sig, c.index[odd.src], "", nil)
}
