package conn

import "testing"

// TestLongPath: four times in vain, between which the peer is heard, are a black hole; a
// silent peer, or a frame that gets through, is none. The path is asked ever more rarely.
func TestLongPath(t *testing.T) {
	var p BlackHole
	for i := range 10 {
		if p.RecordLoss(int64(i)*holeTime, 5, 5, 100, 1, false) {
			t.Fatalf("a hole after %d losses, and nothing heard", i+1)
		}
	}
	for i := range holeLosses - 2 {
		if p.RecordLoss(20*holeTime, 5, 5, int64(101+i), 1, false) {
			t.Fatalf("a hole after %d losses", i+2)
		}
	}
	through := p
	if through.RecordLoss(20*holeTime, 6, 6, 200, 1, false) || through.losses != 1 {
		t.Error("the first one lost has been acknowledged")
	}
	through = p
	if through.RecordLoss(20*holeTime, 5, 5, 200, 1, true) || through.losses != 1 {
		t.Error("another one has been acknowledged")
	}
	through = BlackHole{}
	for i := range 2 * holeLosses {
		if through.RecordLoss(int64(i), 5, 5, int64(i), 1, false) {
			t.Fatal("a hole that has lasted some nanoseconds")
		}
	}
	if !p.RecordLoss(20*holeTime, 5, 5, 200, 1, false) {
		t.Fatal("no hole")
	}
	p.Enter(1000)
	at := int64(1000 + holeAgain)
	if !p.Found || p.Ask(at-1) || !p.Ask(at) || p.Ask(at+2*holeAgain-1) || !p.Ask(at+2*holeAgain) {
		t.Errorf("%+v", p)
	}
	p.Found, p.over = false, at+2*holeAgain
	if p.Enter(p.over + 1); p.interval != 4*holeAgain {
		t.Errorf("fallen again at once, it waits for %d ns", p.interval)
	}
	p.Found, p.over = false, 0
	if p.Enter(1 << 50); p.interval != holeAgain {
		t.Errorf("fallen again after a long time, it waits for %d ns", p.interval)
	}
	for range 30 {
		p.Ask(1 << 60)
		p.next = 0
	}
	if p.interval != holeMax {
		t.Errorf("it waits for %d ns", p.interval)
	}
}
