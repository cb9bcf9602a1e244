package vrpc

import (
	"sync/atomic"
	"time"

	"github.com/bobnet-go/bobnet/vmmc"
)

// alarm bounds the waits of a server in a process of VMMC, one after another. A context for each
// would take memory. Methods but over are called by one goroutine at a time.
type alarm struct {
	over  atomic.Bool // the time may be: who waits looks whether it is late
	timer *time.Timer
	due   time.Time // zero for none
}

// newAlarm returns an alarm that is not set.
func newAlarm(p *vmmc.Process) *alarm {
	a := new(alarm)
	a.timer = time.AfterFunc(time.Hour, func() {
		a.over.Store(true)
		p.Wake()
	})
	a.timer.Stop()
	return a
}

// set sets the time for what is waited for next; negative is none.
func (a *alarm) set(d time.Duration) {
	a.over.Store(false)
	if d < 0 {
		a.stop()
		return
	}
	a.due = time.Now().Add(d)
	a.timer.Reset(d)
}

// late reports whether that time is over. The timer may have been that of an earlier wait.
func (a *alarm) late() bool {
	if !a.over.Load() || a.due.IsZero() {
		return false
	}
	if left := time.Until(a.due); left > 0 {
		a.over.Store(false)
		a.timer.Reset(left)
		return false
	}
	return true
}

func (a *alarm) stop() {
	if !a.due.IsZero() {
		a.due = time.Time{}
		a.timer.Stop()
	}
}
