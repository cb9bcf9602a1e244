package shm_test

import (
	"errors"
	"testing"

	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/shm"
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
		if s.answer(&c); !c.answered {
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
