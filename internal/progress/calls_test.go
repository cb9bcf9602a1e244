package progress

import (
	"context"
	"slices"
	"testing"
)

// TestCalls: calls run in order, without the lock, by whoever gives it up; those that a
// call makes are run as well.
func TestCalls(t *testing.T) {
	_, c, _ := pair(t)
	var calls Calls[int]
	var ran []int
	calls.Init(&c.e, func(i *int) {
		c.e.Lock() // would block for ever if it were held
		if *i == 1 {
			calls.Owe(9)
		}
		c.e.Unlock()
		ran = append(ran, *i)
	})
	c.e.Lock()
	for i := range 4 {
		calls.Owe(i)
	}
	calls.Keep(func(i *int) bool { return *i != 2 })
	if len(ran) != 0 || calls.Len() != 3 {
		t.Errorf("before Unlock %v have run and %d wait", ran, calls.Len())
	}
	c.e.Unlock()
	if want := []int{0, 1, 3, 9}; !slices.Equal(ran, want) {
		t.Errorf("they run as %v, want %v", ran, want)
	}
	c.e.Lock()
	calls.Owe(5)
	calls.Shut()
	calls.Owe(6)
	c.e.Unlock()
	if len(ran) != 4 || c.e.calls.due() {
		t.Errorf("after Shut %v have run", ran)
	}
}

// TestCallPanics: the calls behind one that panics are run by whoever unlocks next.
func TestCallPanics(t *testing.T) {
	_, c, _ := pair(t)
	var calls Calls[int]
	ran := 0
	calls.Init(&c.e, func(i *int) {
		if *i == 0 {
			panic("the program's fault")
		}
		ran++
	})
	func() {
		defer func() { recover() }()
		c.e.Lock()
		calls.Owe(0)
		calls.Owe(1)
		c.e.Unlock()
	}()
	if ran != 0 {
		t.Fatal("a call has run behind the one that panicked")
	}
	c.e.Lock()
	c.e.Unlock()
	if ran != 1 {
		t.Error("the call behind the one that panicked is lost")
	}
}

// TestCallOut: a call that is owed by what a wait's own poll has taken in runs in that
// wait, and may wait itself, which somebody must lead.
func TestCallOut(t *testing.T) {
	w, c, peer := pair(t)
	var calls Calls[int]
	calls.Init(&c.e, func(i *int) {
		if err := c.await(context.Background(), 2, 1); err != nil {
			t.Error(err)
		}
		c.e.Lock()
		c.add(1)
		c.e.Unlock()
	})
	w.Go("waiter", func() {
		if err := c.await(context.Background(), 1, 1); err != nil {
			t.Error(err)
		}
	})
	w.Go("peer", func() {
		w.Sleep(1000)
		c.e.Lock()
		calls.Owe(7)
		c.e.WakeAll()
		c.e.mu.Unlock() // as a machine does that is in the midst of its poll
		w.Sleep(1000)
		c.post(t, peer, 2)
	})
	if err := w.Run(); err != nil {
		t.Fatal(err)
	}
}
