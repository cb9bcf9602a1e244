package udp

import "github.com/bobnet-go/bobnet/internal/link/driver"

// Wake implements transport.Link. It makes a system call only if a goroutine waits.
func (l *Link) Wake() { l.wait.Wake() }

// Watch makes Wait also end when fd becomes readable. A negative fd stops watching.
func (l *Link) Watch(fd int) { l.wait.Watch(fd) }

// Wait implements transport.Link.
func (l *Link) Wait(until int64) error { return l.wait.Wait(until, l.Ready, l.poll) }

// poll blocks until a frame arrives, Wake is called or the clock reaches until.
func (l *Link) poll(until int64) error {
	err := l.wait.Poll(until, driver.Now)
	l.rx.group.Store(groupUnknown)
	return err
}
