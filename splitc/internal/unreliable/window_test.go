package unreliable

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
)

// TestWindow: two windows over a path that loses, doubles and delays by chance. Each
// message of both classes is processed once, in order, numbers wrap around, and in the end
// nothing is under way.
func TestWindow(t *testing.T) {
	seeds(t, 50, func(seed uint64) error {
		p := &pair{rng: rand.New(rand.NewPCG(seed, 1))}
		for i := range p.w {
			p.w[i] = newWindow(16)
		}
		for step := 0; step < 20_000 && !p.done(); step++ {
			if err := p.step(int64(step) * 1e6); err != nil {
				return fmt.Errorf("step %d: %w", step, err)
			}
		}
		if !p.done() {
			return fmt.Errorf("after all steps %d and %d messages are processed, of %d, and quiet are %v and %v",
				p.got[0], p.got[1], messages, p.w[0].quiet(), p.w[1].quiet())
		}
		return nil
	})
}

// messages is how many of each class each side sends: more than there are before numbers
// wrap around.
const messages = 300

// packet is a message on its way.
type packet struct {
	to, class      int // class is -1 for a no-op reply
	number, rq, rp uint32
	held           [classes]uint64 // of a no-op reply
	at             int64
}

// pair is two ends and the path between them.
type pair struct {
	rng  *rand.Rand
	w    [2]window
	sent [2][classes]int
	got  [2][classes]int
	held [2][classes]map[uint32]bool
	path []packet
}

func (p *pair) done() bool {
	for i := range p.w {
		if !p.w[i].quiet() || p.got[i][request] < messages || p.got[i][reply] < messages {
			return false
		}
	}
	return true
}

// put has a packet on its way, once, twice or not at all.
func (p *pair) put(from, class int, number uint32, now int64) {
	rq, rp := p.w[from].acks()
	var held [classes]uint64
	if class < 0 {
		held = p.w[from].holds(now)
	}
	for range []int{0, 1, 1, 1, 2}[p.rng.IntN(5)] {
		p.path = append(p.path, packet{1 - from, class, number, rq, rp, held, now + p.rng.Int64N(60e6)})
	}
}

func (p *pair) step(now int64) error {
	for i := range p.w {
		w := &p.w[i]
		for class := range classes {
			if p.sent[i][class] < messages && !w.full(class) && p.rng.IntN(2) == 0 {
				p.sent[i][class]++
				p.put(i, class, w.assignNumber(class, now), now)
			}
			for n, ok := w.overdue(class, w.out[class].first, now); ok; n, ok = w.overdue(class, n+1, now) {
				p.put(i, class, n, now)
			}
		}
		if w.speaks(now) {
			p.put(i, -1, 0, now)
		}
	}
	for k := 0; k < len(p.path); {
		q := p.path[k]
		if q.at > now {
			k++
			continue
		}
		p.path[k] = p.path[len(p.path)-1]
		p.path = p.path[:len(p.path)-1]
		if err := p.arrive(q, now); err != nil {
			return err
		}
	}
	return nil
}

func (p *pair) arrive(q packet, now int64) error {
	w := &p.w[q.to]
	if !w.acknowledged(request, q.rq) || !w.acknowledged(reply, q.rp) {
		return errors.New("an acknowledgement of what was sent is refused")
	}
	if w.acknowledged(request, w.out[request].next+1) {
		return errors.New("an acknowledgement of what was never sent is believed")
	}
	if q.class < 0 {
		for class, base := range [classes]uint32{q.rq, q.rp} {
			for n, ok := w.missing(class, base, q.held[class], base, now); ok; n, ok = w.missing(class, base, q.held[class], n+1, now) {
				p.put(q.to, class, n, now)
			}
		}
		return nil
	}
	held := &p.held[q.to][q.class]
	if *held == nil {
		*held = map[uint32]bool{}
	}
	switch w.arrived(q.class, q.number) {
	case outside:
		return fmt.Errorf("number %d is outside of the window at %d", q.number, w.in[q.class])
	case fresh:
		(*held)[q.number] = true
	}
	for (*held)[w.in[q.class]] {
		delete(*held, w.in[q.class])
		p.got[q.to][q.class]++
		w.processed(q.class, now)
	}
	if p.got[q.to][q.class] > messages {
		return errors.New("a message is processed twice")
	}
	return nil
}

// TestGap: of 64 messages, 16 in a frame, the second frame is lost. Its messages, and no
// others, are sent again, as soon as the other side has said that it lacks them.
func TestGap(t *testing.T) {
	const frame, sentAt, heardAt = 16, 5e6, 7e6
	a, b := newWindow(64), newWindow(64)
	for i := range 4 * frame {
		n := a.assignNumber(request, sentAt)
		if i/frame == 1 {
			continue
		}
		if b.arrived(request, n) != fresh {
			t.Fatalf("message %d is not fresh", i)
		}
		if n == b.in[request] {
			b.processed(request, sentAt)
		}
	}
	if !b.speaks(sentAt) {
		t.Fatal("nothing is said of a gap")
	}
	base, _ := b.acks()
	held := b.holds(sentAt)
	if b.speaks(sentAt) {
		t.Error("the same is said twice at once")
	}
	a.acknowledged(request, base)
	if n, ok := a.missing(request, base, held[request], base, sentAt); ok {
		t.Errorf("message %d has been on its way for no time, and is sent again", n-firstNumber)
	}
	var again []uint32
	for n, ok := a.missing(request, base, held[request], base, heardAt); ok; n, ok = a.missing(request, base, held[request], n+1, heardAt) {
		again = append(again, n-firstNumber)
	}
	for i, n := range again {
		if n != uint32(frame+i) {
			t.Fatalf("messages %v are sent again", again)
		}
	}
	if len(again) != frame {
		t.Errorf("%d messages are sent again, want %d", len(again), frame)
	}
	for i := range uint32(frame) {
		b.arrived(request, firstNumber+frame+i)
	}
	for range 3 * frame {
		b.processed(request, heardAt)
	}
	if b.lacks() || b.in[request] != a.out[request].next {
		t.Error("the gap is not closed")
	}
}

// TestSilence: a side that hears nothing for long sends some of its messages again, not all.
func TestSilence(t *testing.T) {
	a := newWindow(64)
	for range 64 {
		a.assignNumber(request, 0)
	}
	count := 0
	for n, ok := a.overdue(request, firstNumber, timeout); ok; n, ok = a.overdue(request, n+1, timeout) {
		count++
	}
	if count != probe {
		t.Errorf("%d messages are sent again, want %d", count, probe)
	}
}
