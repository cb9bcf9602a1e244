package progress

import "testing"

// TestLoadAllocatesNothing: a wait looks how many threads want to run while messages
// go.
func TestLoadAllocatesNothing(t *testing.T) {
	var b loadText
	if n := testing.AllocsPerRun(100, func() { b.crowded() }); n != 0 {
		t.Errorf("%v allocations a look", n)
	}
}

// TestLoadWithoutLock: a look at the machine, which may take long, is made without the
// engine's lock.
func TestLoadWithoutLock(t *testing.T) {
	_, c, _ := pair(t)
	looked := false
	c.e.spin.busy = func() bool {
		c.e.Lock() // would block for ever if it were held
		c.e.Unlock()
		looked = true
		return true
	}
	c.e.Lock()
	c.e.lookAround(true, true)
	c.e.Unlock()
	if !looked || c.e.spin.budget(c.e.now) != 0 {
		t.Error("it has not looked, or goes on to spin in a crowd")
	}
}
