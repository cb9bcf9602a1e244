package conn

import "testing"

// TestPackLong: messages of 256 bytes and more share long frames where the path carries
// those; shorter ones share the others.
func TestPackLong(t *testing.T) {
	c := &Conn{Path: Path{Data: 1400, MaxData: 65000}}
	c.tx.c = c
	for total, want := range map[uint32]int{0: 1400, 64: 1400, 255: 1400, 256: 65000, 1024: 65000, 1025: 65000, 60000: 65000} {
		d := &Descriptor{}
		d.total = total
		if got := c.tx.shared(d); got != want {
			t.Errorf("messages of %d bytes share frames of %d bytes, want %d", total, got, want)
		}
	}
	if c.Path.MaxData = c.Path.Data; c.tx.shared(&Descriptor{}) != 1400 {
		t.Error("where no long frames go, they share others than such as go there")
	}
}
