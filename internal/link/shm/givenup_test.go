package shm_test

import (
	"errors"
	"testing"

	"github.com/bobnet-go/bobnet/internal/link/shm"
	"github.com/bobnet-go/bobnet/transport"
	"golang.org/x/sys/unix"
)

// TestCallGivenUp: a caller whose answer came too late for it has sent nothing, and is not
// taken for gone; one that has sent a frame before its stream ended is.
func TestCallGivenUp(t *testing.T) {
	a := open(t, shm.Config{})
	var why error
	a.OnDeparture(func(_ transport.PortRange, err error) { why = err })
	s := newStranger(t, a, 40)
	end := func(file int) {
		t.Helper()
		c := s.call(a, file)
		if s.answer(c); !c.answered {
			t.Fatal("the call was refused")
		}
		until(t, "rings with the caller", func() bool { return a.Peers() == 1 })
		unix.Close(c.mine)
		c.mine = -1
		until(t, "the removal of the rings", func() bool {
			a.Recv(make([][]byte, 1))
			return a.Peers() == 0
		})
	}
	end(s.file())
	if why != nil {
		t.Errorf("departure of a caller that gave up: %v", why)
	}
	end(s.file(s.own(a)))
	if !errors.Is(why, shm.ErrGone) {
		t.Errorf("departure of one that had sent a frame: %v", why)
	}
}

// TestBothRingsEnded: a station that shares two pairs of rings with the link, because both
// have called at the same time, and that has sent by the first pair only, is gone when both
// have ended, whichever end is seen first.
func TestBothRingsEnded(t *testing.T) {
	for name, order := range map[string][]int{"used pair first": {0, 1}, "used pair last": {1, 0}} {
		t.Run(name, func(t *testing.T) { endBothRings(t, order) })
	}
}

// endBothRings ends two pairs of rings in an order. A frame has come by pair 0.
func endBothRings(t *testing.T, order []int) {
	a := open(t, shm.Config{})
	var why error
	a.OnDeparture(func(_ transport.PortRange, err error) { why = err })
	s := newStranger(t, a, 40)
	calls := []*line{s.call(a, s.file(s.own(a))), s.call(a, s.file())}
	for i := range calls {
		if s.answer(calls[i]); !calls[i].answered {
			t.Fatalf("call %d was refused", i)
		}
	}
	until(t, "two pairs of rings with the station", func() bool { return a.Peers() == 2 })
	for n, i := range order {
		if why != nil {
			t.Fatalf("departure while one pair lives: %v", why)
		}
		unix.Close(calls[i].mine)
		calls[i].mine = -1
		until(t, "the removal of the rings", func() bool {
			a.Recv(make([][]byte, 1))
			return a.Peers() == 1-n
		})
	}
	if !errors.Is(why, shm.ErrGone) {
		t.Errorf("departure %v, want that the station is gone", why)
	}
}
