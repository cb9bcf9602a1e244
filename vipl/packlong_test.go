package vipl

import "testing"

// TestPackLong: messages of 256 bytes and more share long frames where the path carries
// those; shorter ones share the others.
func TestPackLong(t *testing.T) {
	v := &VI{pathData: 1400, maxData: 65000}
	for total, want := range map[uint32]int{0: 1400, 64: 1400, 255: 1400, 256: 65000, 1024: 65000, 1025: 65000, 60000: 65000} {
		d := &Descriptor{}
		d.total = total
		if got := v.shared(d); got != want {
			t.Errorf("messages of %d bytes share frames of %d bytes, want %d", total, got, want)
		}
	}
	if v.maxData = v.pathData; v.shared(&Descriptor{}) != 1400 {
		t.Error("where no long frames go, they share others than such as go there")
	}
}
