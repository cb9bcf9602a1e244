package udp

import (
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/internal/afpacket"
)

// Wake implements transport.Link. It makes a system call only if somebody
// waits.
func (l *Link) Wake() {
	if !l.gate.Enter() {
		return
	}
	l.cnt.Wakes.Add(1)
	l.wait.Wake()
	l.gate.Leave()
}

// Watch implements transport.Watcher.
func (l *Link) Watch(fd int) { l.wait.Watch(fd) }

// Wait implements transport.Link.
func (l *Link) Wait(until int64) error {
	if !l.gate.Enter() {
		return transport.ErrClosed
	}
	defer l.gate.Leave()
	var err error
	if l.wait.Begin() {
		err = l.poll(until)
		l.wait.End()
	}
	if !l.gate.Open() {
		return transport.ErrClosed
	}
	return err
}

// poll blocks until a frame, a wake-up or the time until.
func (l *Link) poll(until int64) error {
	// Close shuts the gate before it wakes, so one of the two is seen here.
	if l.Ready() || !l.gate.Open() {
		return nil
	}
	l.cnt.Waits.Add(1)
	err := l.wait.Poll(until, afpacket.Now)
	l.rx.group.Store(groupUnknown)
	return err
}
