package conn

import "testing"

// TestLongPath: four times in vain, between which the peer is heard, are a black hole; a
// silent peer, or a frame that gets through, is none. The path is asked ever more rarely.
func TestLongPath(t *testing.T) {
	var p blackHole
	for i := range 10 {
		if p.note(int64(i)*holeTime, 5, 5, 100, 1, false) {
			t.Fatalf("a hole after %d losses, and nothing heard", i+1)
		}
	}
	for i := range holeLosses - 2 {
		if p.note(20*holeTime, 5, 5, int64(101+i), 1, false) {
			t.Fatalf("a hole after %d losses", i+2)
		}
	}
	through := p
	if through.note(20*holeTime, 6, 6, 200, 1, false) || through.losses != 1 {
		t.Error("the first one lost has been acknowledged")
	}
	through = p
	if through.note(20*holeTime, 5, 5, 200, 1, true) || through.losses != 1 {
		t.Error("another one has been acknowledged")
	}
	through = blackHole{}
	for i := range 2 * holeLosses {
		if through.note(int64(i), 5, 5, int64(i), 1, false) {
			t.Fatal("a hole that has lasted some nanoseconds")
		}
	}
	if !p.note(20*holeTime, 5, 5, 200, 1, false) {
		t.Fatal("no hole")
	}
	p.find(1000)
	at := int64(1000 + holeAgain)
	if !p.found || p.ask(at-1) || !p.ask(at) || p.ask(at+2*holeAgain-1) || !p.ask(at+2*holeAgain) {
		t.Errorf("%+v", p)
	}
	p.found, p.over = false, at+2*holeAgain
	if p.find(p.over + 1); p.interval != 4*holeAgain {
		t.Errorf("fallen again at once, it waits for %d ns", p.interval)
	}
	p.found, p.over = false, 0
	if p.find(1 << 50); p.interval != holeAgain {
		t.Errorf("fallen again after a long time, it waits for %d ns", p.interval)
	}
	for range 30 {
		p.ask(1 << 60)
		p.next = 0
	}
	if p.interval != holeMax {
		t.Errorf("it waits for %d ns", p.interval)
	}
}
