package admission

import "testing"

// TestGate: a peer has no more than its part, all have no more than there is, what is given back
// is there again, and of peers that have nothing nothing is kept.
func TestGate(t *testing.T) {
	g := New(Limits{Conns: 2, AllConns: 5, Bytes: 100, AllBytes: 150}, "root")
	for i, step := range []struct {
		peer  string
		conns int
		bytes int64
		want  bool
	}{
		{"a", 1, 0, true}, {"a", 1, 0, true}, {"a", 1, 0, false},
		{"root", 1, 0, true}, {"root", 1, 0, true}, {"root", 1, 0, true},
		{"b", 1, 0, false}, {"root", 1, 0, false},
		{"a", -1, 0, true}, {"b", 1, 0, true},
		{"a", 0, 100, true}, {"a", 0, 1, false}, {"b", 0, 50, true}, {"b", 0, 1, false}, {"root", 0, 1, false},
		{"a", 0, -100, true}, {"root", 0, 100, true}, {"b", 0, 1, false},
	} {
		if got := g.charge(step.peer, step.conns, step.bytes); got != step.want {
			t.Fatalf("step %d, %+v: %v", i, step, got)
		}
	}
	if own, all := g.Conns("root"); own != 3 || all != 5 {
		t.Errorf("root has %d of %d connections, want 3 of 5", own, all)
	}
	for range 3 {
		g.Leave("root")
	}
	g.Leave("a")
	g.Leave("b")
	g.Give("root", 100)
	g.Give("b", 50)
	if len(g.peers) != 0 || g.all != (cost{}) {
		t.Errorf("%d peers are kept, with %+v", len(g.peers), g.all)
	}
}
