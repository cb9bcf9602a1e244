package sleep

import (
	"github.com/bobnet-go/bobnet/internal/link/driver"
	"github.com/bobnet-go/bobnet/transport"
)

// Waiter implements Wait, Wake and Watch for a link that sleeps in Poll.
type Waiter struct {
	Sleeper
	gate *driver.Gate
	cnt  *driver.Counters
}

// Open prepares a Waiter that waits for input on fds while gate is open, and counts in cnt. To
// close the link, shut the gate and then call Sleeper.Wake.
func (w *Waiter) Open(gate *driver.Gate, cnt *driver.Counters, fds ...int) error {
	w.gate, w.cnt = gate, cnt
	return w.Sleeper.Open(fds...)
}

// Wake implements the link's Wake. It counts the call, and does nothing if the link is closed.
func (w *Waiter) Wake() {
	if !w.gate.Enter() {
		return
	}
	w.cnt.Wakes.Add(1)
	w.Sleeper.Wake()
	w.gate.Leave()
}

// Wait implements the link's Wait. It calls poll, which calls Poll, unless Wake was called before,
// or ready, the link's Ready, reports a frame.
func (w *Waiter) Wait(until int64, ready func() bool, poll func(until int64) error) (err error) {
	if !w.gate.Enter() {
		return transport.ErrClosed
	}
	defer w.gate.Leave()
	if w.begin() {
		if !ready() {
			w.cnt.Waits.Add(1)
			err = poll(until)
		}
		w.end()
	}
	if !w.gate.Open() {
		return transport.ErrClosed
	}
	return err
}
