package reliability_test

import (
	"testing"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/reliability"
)

// talker is a Receiver of which frames are taken, and acknowledged bare when that is due.
type talker struct {
	reliability.Receiver
	now  int64
	seq  ethertype.Seq
	bare int // acknowledgements that went on their own
}

// hear has a frame come, and returns for how long its acknowledgement waits.
func (k *talker) hear() int64 {
	k.Accept(k.now, k.seq, false, false)
	k.seq++
	return k.Deadline() - k.now
}

// answer sends a frame so much later.
func (k *talker) answer(after int64) {
	k.pass(after)
	k.AckSent(k.now, true)
}

// pass lets time pass.
func (k *talker) pass(ns int64) {
	at := k.now + ns
	if due := k.Deadline(); due <= at {
		k.now = due
		k.bare++
		k.AckSent(k.now, false)
	}
	k.now = at
}

// TestTalk: an acknowledgement waits longer for a frame that can carry it while frames are
// answered within that time, and as long as AckDelay says else.
func TestTalk(t *testing.T) {
	for _, c := range []struct{ delay, long int64 }{{0, 250_000}, {50_000, 250_000}, {10_000, 50_000}, {200_000, 250_000}, {1_000_000, 1_000_000}} {
		k := talker{now: 1e9}
		k.Init(&reliability.Config{AckDelay: c.delay}, 0)
		short := c.delay
		if short == 0 {
			short = 50_000
		}
		wants := func(what string, want int64) {
			t.Helper()
			if got := k.hear(); got != want {
				t.Fatalf("AckDelay %d, %s: the acknowledgement waits for %d, want %d", c.delay, what, got, want)
			}
		}
		talk := func() {
			t.Helper()
			for range 4 {
				wants("before a talk", short)
				k.answer(c.long)
			}
			wants("in a talk", c.long)
		}
		talk()
		k.bare = 0
		k.answer(c.long - 1)
		for range 20 {
			wants("in a talk", c.long)
			k.answer(c.long - 1)
		}
		if k.bare > 0 {
			t.Errorf("AckDelay %d: %d acknowledgements went on their own in a talk", c.delay, k.bare)
		}
		wants("in a talk", c.long)
		k.pass(10 * c.long)
		wants("after one frame that was not answered", c.long)
		k.pass(10 * c.long)
		wants("after two", short)
		k.answer(c.long)
		wants("when one was answered late", short)
		k.answer(c.long + short + 1)
		talk()
		k.answer(c.long + 1)
		if c.long > short {
			wants("after a late answer", short)
		}
	}
}

// TestTalkOneWay: who gets frames and sends none acknowledges as AckDelay says.
func TestTalkOneWay(t *testing.T) {
	k := talker{now: 1e9}
	k.Init(nil, 0)
	for range 100 {
		if d := k.hear(); d != 50_000 {
			t.Fatalf("it waits for %d", d)
		}
		k.pass(60_000)
	}
	k.answer(0)
	if d := k.hear(); d != 50_000 {
		t.Fatalf("after one frame of its own, it waits for %d", d)
	}
}

// TestTalkAsked: an acknowledgement for which the peer asks goes at once, and in a talk it waits for
// the answer, which the caller ends when the program waits.
func TestTalkAsked(t *testing.T) {
	k := talker{now: 1e9}
	k.Init(nil, 0)
	ask := func() (due, held bool) {
		k.Accept(k.now, k.seq, true, false)
		k.seq++
		return k.AckDue(k.now), k.AckHeld()
	}
	if due, held := ask(); !due || held {
		t.Errorf("outside a talk the acknowledgement is due: %v, held: %v", due, held)
	}
	k.AckSent(k.now, false)
	for range 4 {
		k.hear()
		k.answer(10_000)
	}
	if due, held := ask(); due || !held {
		t.Errorf("in a talk the acknowledgement is due: %v, held: %v", due, held)
	}
	if d := k.Deadline() - k.now; d != 250_000 {
		t.Errorf("in a talk the acknowledgement waits for %d ns, want 250 us", d)
	}
	k.answer(10_000)
	if k.AckHeld() {
		t.Error("the answer has carried the acknowledgement, which is still held")
	}
	k.hear()
	k.Accept(k.now, k.seq, true, true)
	k.seq++
	if k.AckDue(k.now) || !k.AckHeld() {
		t.Error("of two frames the second ends a message and asks, and the acknowledgement is not held")
	}
	k.answer(10_000)
	k.hear()
	if due, _ := ask(); !due {
		t.Error("of two frames the second asks within a message, and no acknowledgement is due")
	}
}
