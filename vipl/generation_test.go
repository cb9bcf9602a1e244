package vipl_test

import (
	"testing"

	"github.com/bobnet-go/bobnet/vipl"
)

// TestGenerations registers memory in one slot of the table more often than a
// handle can count: no two of the handles in a row are the same, the one before
// names nothing any more, and the registering goes on.
func TestGenerations(t *testing.T) {
	link, _ := memPair(1500)
	n, err := vipl.Open(t.Context(), &vipl.Config{Link: link, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	buf, before := make([]byte, 64), vipl.MemHandle(0)
	for i := range 5000 {
		h, err := n.RegisterMem(buf, nil)
		if err != nil {
			t.Fatalf("registration %d: %v", i, err)
		}
		if _, err := n.QueryMem(h); err != nil {
			t.Fatalf("registration %d: %v", i, err)
		}
		if _, err := n.QueryMem(before); err == nil {
			t.Fatalf("registration %d: the handle %v before it still names a region, as %v does", i, before, h)
		}
		if err := n.DeregisterMem(h); err != nil {
			t.Fatalf("registration %d: %v", i, err)
		}
		before = h
	}
}
