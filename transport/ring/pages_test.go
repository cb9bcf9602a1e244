package ring

import "testing"

// TestPages: the kernel keeps long frames in pages if a call has many of them, and also the end of that
// message.
func TestPages(t *testing.T) {
	var l long
	for i, c := range []struct {
		frames int
		paged  bool
	}{
		{1, false},
		{manyLong - 1, false},
		{manyLong, true},
		{2, true},
		{2, false}, // of the next message
		{manyLong, true},
		{1, false},
	} {
		if paged := l.pages(c.frames); paged != c.paged {
			t.Errorf("call %d, of %d frames: pages %v, want %v", i, c.frames, paged, c.paged)
		}
	}
}
