package reliability

import "testing"

// TestLoneAsks: however small the window that losses have left, the frames of a
// ping-pong ask for acknowledgements only as long as there is room for one.
func TestLoneAsks(t *testing.T) {
	for _, window := range []int{1, 2, 3, 8} {
		var s Sender
		s.Init(&Config{Window: window, InitialWindow: window}, 1)
		asked := 0
		for at := int64(1); at <= 20; at++ {
			seq, ask := s.Push(at, Sent{}, true)
			if ask {
				asked++
			}
			if progress, valid := s.OnAck(at, seq+1, 0, nil); !progress || !valid {
				t.Fatal("no progress by an acknowledgement of all")
			}
		}
		if all := window == 1; all && asked != 20 || !all && asked != 0 {
			t.Errorf("window %d: %d of 20 frames ask", window, asked)
		}
	}
}

// TestAskEach: one frame in six asks, counted from those that have been acknowledged
// or asked for.
func TestAskEach(t *testing.T) {
	for _, c := range []struct{ acked, want int }{{0, 5}, {2, 0}, {5, 0}, {6, 5}, {7, 4}} { // acked: so many frames at a time
		var s Sender
		s.Init(&Config{Window: 256, InitialWindow: 256}, 1)
		asked := 0
		for at := int64(1); at <= 30; at++ {
			seq, ask := s.Push(at, Sent{}, false)
			if ask || s.AskEach(6) {
				asked++
			}
			if c.acked > 0 && at%int64(c.acked) == 0 {
				s.OnAck(at, seq+1, 0, nil)
			}
		}
		if asked != c.want {
			t.Errorf("acknowledged by %d: %d of 30 frames ask, want %d", c.acked, asked, c.want)
		}
	}
}
