package ring

import "testing"

// TestPages: the kernel keeps long frames in pages if a call has many of them, and also the end of that
// message, unless sender and receiver share a processor.
func TestPages(t *testing.T) {
	var l long
	for i, c := range []struct {
		frames int
		shares bool
		paged  bool
	}{
		{1, false, false},
		{manyLong - 1, false, false},
		{manyLong, false, true},
		{2, false, true},
		{2, false, false}, // of the next message
		{manyLong, false, true},
		{1, false, false},
		{manyLong, true, false},
		{2, true, false},
	} {
		if paged := l.pages(c.frames, c.shares); paged != c.paged {
			t.Errorf("call %d, of %d frames, shares %v: pages %v, want %v", i, c.frames, c.shares, paged, c.paged)
		}
	}
}
