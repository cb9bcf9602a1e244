package reliability

import (
	"testing"
	"time"
)

// Where many frames are lost and no queue shows, a probe takes three other frames of the flight with
// it. The answer to one of them shows what else is missing, and that goes again at once. From the
// second probe on a frame may go twice.
func TestStoryProbeTakesMore(t *testing.T) {
	story(t, nil, 0, `
		0us push 4
		    0ns send 0 1 2 3
		20us ack 4
		100us push 10
		    100us send 4 5 6 7 8! 9 10 11 12 13!
		120us ack 4 sack 13
		    130us again 4
		    130us again 5
		    130us again 6
		    130us again 7
		    130us again 8
		    130us again 9
		    130us again 10
		150us ack 14
		200us push 5
		    200us send 14 15 16 17! 18
		    550us again 18
		    550us again 14
		    550us again 15
		    550us again 16
		571us ack 14 sack 16
		    608500ns again 17
		    608500ns again 18
		    608500ns again 14
		630us ack 19
		2ms push 1
		    2ms send 19
		    2350us again 19
		    2700us again 19
		    2700us again 19
		    2700us again 19
		    2700us again 19
		2721us ack 20
		`)
}

// Answers to frames that went again which come as soon as ever do not put off the next probes: the
// round trip is what it was, and frames are lost.
func TestStoryLostProbes(t *testing.T) {
	story(t, nil, 0, `
		0us push 4
		    0ns send 0 1 2 3
		20us ack 4
		1ms push 1
		    1ms send 4
		    1350us again 4
		1375us ack 5
		3ms push 1
		    3ms send 5
		    3350us again 5
		3375us ack 6
		7ms push 1
		    7ms send 6
		    7350us again 6
		7600us ack 7
		`)
}

// TestHeavyLoss wants messages of some dozens of frames to take milliseconds where each third frame and
// each third acknowledgement is lost, or each second of both, as happens on the two wires of a bridge.
func TestHeavyLoss(t *testing.T) {
	for _, c := range []struct {
		loss   float64
		frames int
		most   time.Duration // on average
	}{
		{.3, 12, 4 * time.Millisecond},
		{.3, 55, 18 * time.Millisecond},
		{.51, 12, 10 * time.Millisecond},
		{.51, 55, 70 * time.Millisecond},
	} {
		const seeds, times = 10, 20
		var took int64
		for seed := range uint64(seeds) {
			ns, err := messages(seed, c.loss, c.frames, times)
			if err != nil {
				t.Fatalf("loss %v, seed %d: %v", c.loss, seed, err)
			}
			took += ns
		}
		mean := time.Duration(took / seeds / times)
		t.Logf("loss %v: %d frames take %v", c.loss, c.frames, mean)
		if mean > c.most {
			t.Errorf("loss %v: %d frames take %v, want %v", c.loss, c.frames, mean, c.most)
		}
	}
}

// messages returns how many ns messages take, each of so many frames. One goes when all frames of the
// one before it are acknowledged.
func messages(seed uint64, loss float64, frames, times int) (int64, error) {
	w := newWorld(seed, faults{loss: loss}.transmit)
	a, b := w.connect(nil, frames*times, 0)
	a.Sender.SetUserTimeout(int64(time.Minute))
	all := b.got
	for left := frames * (times - 1); left >= 0; left -= frames {
		a.backlog, b.got = frames, all[:len(all)-left]
		w.at(w.now, nil, a)
		if err := w.run(w.now+int64(time.Minute), func() bool { return b.missing == left && a.InFlight() == 0 }); err != nil {
			return 0, err
		}
	}
	return w.now, nil
}
