package conn

import (
	"testing"

	"github.com/bobnet-go/bobnet/progress"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/vipl/internal/code"
)

// served is the link of an engine that has a service goroutine, which is never started.
type served struct {
	transport.Link
	e *end
}

func (s served) Now() int64           { return s.e.Now() }
func (s served) Info() transport.Info { return transport.Info{} }

// readers returns two ends that have a service each.
func readers(t *testing.T) *pair {
	p := newPair(t, reliability.ReliableDelivery, 1500)
	for _, e := range p.ends {
		e.eng.Init(served{e: e}, nil, &progress.Config{})
	}
	return p
}

// read has the end read the peer's memory.
func (e *end) read() {
	d := e.descriptor(readAt, 8)
	d.Op, d.Remote = code.OpRDMARead, e.peer.remote(outAt)
	e.post(d, false)
}

// readOn has both ends read so many times, each as soon as it has what it read before. A program
// is back after so many nanoseconds.
func (p *pair) readOn(times int, back int64) {
	left := [2]int{times, times}
	for _, e := range p.ends {
		e.read()
	}
	p.run(func() bool {
		for i, e := range p.ends {
			if e.c.SQ.Take() == nil {
				continue
			}
			if left[i]--; left[i] > 0 {
				p.now += back
				e.read()
			}
		}
		return left == [2]int{}
	})
}

// TestReadsMeet: two programs that read from each other without a pause need one frame for an
// answer and the request behind it; if they pause, two. What shares a frame takes the fast path, too,
// and the frames are the same without that.
func TestReadsMeet(t *testing.T) {
	const times = 200
	var sent [2][2]int
	for i, fast := range []bool{false, true} {
		for k, c := range []struct {
			back        int64
			least, most int
		}{{100, times, times + times/10}, {progress.PromptPost, 2*times - 2, 3 * times}} {
			p := readers(t)
			p.ends[0].fast, p.ends[1].fast = fast, fast
			p.readOn(times, c.back)
			for i, e := range p.ends {
				if e.sent < c.least || e.sent > c.most {
					t.Errorf("back after %d ns: end %d has sent %d frames for %d reads, want %d to %d", c.back, i, e.sent, times, c.least, c.most)
				}
				if joined := int(e.a.Stats.TxJoined); (joined > times/2) != (c.back < progress.PromptPost) {
					t.Errorf("back after %d ns: end %d has joined %d frames", c.back, i, joined)
				}
				if n := int(e.a.FastPath); fast && c.back < progress.PromptPost && n < 2*times {
					t.Errorf("end %d: %d frames by the fast path", i, n)
				}
			}
			sent[i][k] = p.ends[0].sent + p.ends[1].sent
		}
	}
	if sent[0] != sent[1] {
		t.Errorf("%d frames by the general path, %d by the fast path", sent[0], sent[1])
	}
}

// waits reports whether something of the end's waits for the program's next post.
func (e *end) waits() bool { return e.a.Pending() || e.a.next.kept != nil }

// TestNext: a send that may go with the program's next post does so, of this connection or another, if the
// program has just got something and is prompt; without a post it goes with the next poll.
func TestNext(t *testing.T) {
	for _, c := range []struct {
		prompt, gets, posts bool
		waits               bool
	}{{true, true, true, true}, {true, true, false, true}, {false, true, true, false}, {true, false, true, false}} {
		p := readers(t)
		e, other := p.ends[0], p.ends[1]
		if c.prompt {
			p.readOn(3*progress.PromptMost, 100)
		}
		e.post(e.descriptor(inAt, 64), true)
		if c.gets {
			other.post(other.descriptor(outAt, 64), false)
		}
		for range 2 {
			other.post(other.descriptor(inAt, 64), true)
		}
		e.turn()
		sent := e.sent
		d := e.descriptor(outAt, 64)
		d.Next = true
		e.post(d, false)
		if e.waits() != c.waits || e.sent-sent != map[bool]int{false: 1}[c.waits] {
			t.Fatalf("%+v: %d frames sent, waiting is %v", c, e.sent-sent, e.waits())
		}
		sent = e.sent
		if c.posts {
			e.post(e.descriptor(outAt, 64), false)
		} else {
			e.a.SetClock(p.now)
		}
		if e.waits() || e.sent-sent != 1 {
			t.Errorf("%+v: %d frames sent afterwards, waiting is %v", c, e.sent-sent, e.waits())
		}
		p.run(func() bool { return other.c.RQ.Untaken() >= map[bool]int{true: 2, false: 1}[c.posts] })
	}
}

// TestAnswerInVain: an answer that waits for the program's next post goes with its next poll if
// there is none, and no others wait when that has taken long twice.
func TestAnswerInVain(t *testing.T) {
	p := readers(t)
	p.readOn(3*progress.PromptMost, 100)
	e, other := p.ends[0], p.ends[1]
	for i, waits := range []bool{true, true, false} {
		e.read()
		other.turn()
		other.read()
		if e.turn(); e.c.SQ.Take() == nil || (e.a.batch.Len() > 0) != waits {
			t.Fatalf("answer %d: %d frames wait", i, e.a.batch.Len())
		}
		p.now += progress.PromptPost
		sent := e.sent
		if e.turn(); e.a.batch.Len() > 0 || e.sent-sent != map[bool]int{true: 1}[waits] {
			t.Fatalf("answer %d: %d frames sent by the next poll, %d wait", i, e.sent-sent, e.a.batch.Len())
		}
		if other.turn(); other.c.SQ.Take() == nil {
			t.Fatalf("answer %d has not come", i)
		}
	}
}

// TestReadBehindMessage: a read that shares its frame with a message to a program that has waited for
// that is answered in the same turn, and does not wait until the program is back.
func TestReadBehindMessage(t *testing.T) {
	p := readers(t)
	e, other := p.ends[0], p.ends[1]
	e.fast = true
	for range 3 {
		p.readOn(3*progress.PromptMost, 100)
		e.post(e.descriptor(inAt, 64), true)
		other.post(other.descriptor(inAt, 64), true)
		e.post(e.descriptor(outAt, 64), false)
		other.turn()
		d := other.descriptor(outAt, 64)
		d.Next = true
		other.post(d, false)
		other.read()
		sent := e.sent
		if e.turn(); e.c.RQ.Take() == nil || e.sent == sent && !e.waits() {
			t.Fatalf("the message has come, and the read is not answered: %d frames joined", other.a.Stats.TxJoined)
		}
		p.run(func() bool { return other.c.SQ.Take() != nil && e.c.SQ.Untaken() > 0 })
		for _, end := range p.ends {
			for end.c.SQ.Take() != nil || end.c.RQ.Take() != nil {
			}
		}
	}
}
