package processor

import "testing"

// TestLoadAllocatesNothing: a wait looks how many threads want to run while messages
// go.
func TestLoadAllocatesNothing(t *testing.T) {
	var b Load
	if n := testing.AllocsPerRun(100, func() { b.Crowded() }); n != 0 {
		t.Errorf("%v allocations a look", n)
	}
}
