package vipl_test

import (
	"runtime"
	"strings"
	"testing"

	"github.com/bobnet-go/bobnet/internal/vethtest"
)

// TestObstacle: an interface without a carrier is named as long as it has none,
// and in a namespace that does not have it nothing is known.
func TestObstacle(t *testing.T) {
	p := vethtest.New(t, 1500)
	nic := openOn(t, p, 0, "packet")
	obstacle := func() (text string) {
		if err := p.In(0, func() error { text = nic.Obstacle(); return nil }); err != nil {
			t.Fatal(err)
		}
		return text
	}
	if got := obstacle(); got != "" {
		t.Errorf("all is well, but: %q", got)
	}
	if err := p.SetUp(1, false); err != nil {
		t.Fatal(err)
	}
	for obstacle() == "" { // the kernel sees to it a little later
		runtime.Gosched()
	}
	if got := obstacle(); !strings.HasPrefix(got, vethtest.Name+" has no carrier: ") {
		t.Errorf("the other end is off: %q", got)
	}
	if got := nic.Obstacle(); !strings.Contains(got, vethtest.Name+" has no carrier: ") {
		t.Errorf("in another namespace: %q", got)
	}
}
