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
