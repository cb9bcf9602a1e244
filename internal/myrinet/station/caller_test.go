package station

import (
	"testing"

	"github.com/bobnet-go/bobnet/internal/shared"
	"github.com/bobnet-go/bobnet/transport"
	"golang.org/x/sys/unix"
)

// quiet is a cable on which nothing comes. A wait at it tells that it has begun, and ends when it is to.
type quiet struct {
	transport.Link
	begun, over chan struct{}
}

func (*quiet) Ready() bool { return false }

func (l *quiet) Wait(int64) error {
	l.begun <- struct{}{}
	<-l.over
	return nil
}

// rig is a cable where a process waits that another one calls.
type rig struct {
	t      *testing.T
	link   *called
	caller *Caller
	theirs *shared.Bell
	reason bool // the other process has one
	looks  int
}

func newRig(t *testing.T) *rig {
	m, fd, err := shared.New(4096)
	if err != nil {
		t.Fatal(err)
	}
	unix.Close(fd)
	h, mine := new(Host), shared.NewBell(m, 0)
	r := &rig{t: t, theirs: shared.NewBell(m, 0), reason: true}
	r.link = &called{&quiet{begun: make(chan struct{}), over: make(chan struct{})}, &h.callers}
	r.caller = h.NewCaller(mine, func() bool {
		r.looks++
		return mine.Take(0) != 0 && r.reason
	})
	return r
}

// rings has the other process ring. It makes a system call, or not.
func (r *rig) rings(call bool) {
	r.t.Helper()
	before := r.theirs.Count()
	if r.theirs.Ring(0); (r.theirs.Count() != before) != call {
		r.t.Errorf("a ring makes a system call: %v, want %v", !call, call)
	}
}

// TestCalled: a process that polls its cable looks at the bells of others, who then ring without a system call. While
// it sleeps they wake Hear.
func TestCalled(t *testing.T) {
	r := newRig(t)
	cable := r.link.Link.(*quiet)
	for range 2 {
		if r.link.Ready() {
			t.Error("ready before the other process has rung")
		}
		r.rings(false)
		if !r.link.Ready() || !r.link.by.look() || r.link.Ready() {
			t.Error("a ring is not heard, or heard twice")
		}
		r.rings(false)
		if err := r.link.Wait(0); err != nil || !r.link.by.look() { // it does not begin to wait
			t.Error("a ring before the wait is not heard")
		}
		done := make(chan error)
		go func() { done <- r.link.Wait(0) }()
		<-cable.begun
		r.rings(true)
		cable.over <- struct{}{}
		if err := <-done; err != nil || !r.link.by.look() {
			t.Error("a ring during the wait is not heard")
		}
	}
	r.caller.End()
	if r.rings(false); r.link.Ready() {
		t.Error("a process that has ended is heard")
	}
}

// TestCalledInVain: a process that rings without a reason is left to Hear until it has one.
func TestCalledInVain(t *testing.T) {
	r := newRig(t)
	r.reason = false
	for r.looks <= mostVain {
		r.rings(false)
		if !r.link.Ready() || r.link.by.look() {
			t.Fatalf("after %d looks in vain the bell is not looked at, or has a reason", r.looks)
		}
	}
	r.rings(true)
	if r.link.Ready() || r.link.by.look() || r.looks != mostVain+1 {
		t.Errorf("after %d looks in vain there is another one", mostVain+1)
	}
	r.link.by.wake()
	r.rings(true)
	r.reason = true
	if !r.caller.look() {
		t.Error("the reason is not found")
	}
	r.link.by.wake()
	if r.rings(false); !r.link.Ready() {
		t.Error("the bell is not looked at though there was a reason")
	}
}
