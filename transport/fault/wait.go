package fault

import "github.com/bobnet-go/bobnet/transport"

// Ready implements transport.Link.
func (l *faulty) Ready() bool {
	if next := l.rxNext.Load(); next != transport.Forever && next <= l.Link.Now() {
		return true
	}
	return l.Link.Ready()
}

// Wake implements transport.Link.
func (l *faulty) Wake() {
	l.woken.Store(true)
	l.Link.Wake()
}

// Wait implements transport.Link. It sends delayed frames when they are due.
func (l *faulty) Wait(until int64) error {
	l.waits.Store(true)
	defer l.waits.Store(false)
	for {
		rx, at := l.rxNext.Load(), min(until, l.txNext.Load())
		if now := l.Link.Now(); rx <= now && rx != transport.Forever {
			return l.openOr(nil)
		}
		at = min(at, rx)
		if err := l.Link.Wait(at); err != nil {
			return err
		}
		now := l.Link.Now()
		l.sendDue(now)
		nudged := l.nudge.Swap(false)
		switch {
		case l.woken.Swap(false) || now >= until:
			return l.openOr(nil)
		case now < at && (!nudged || l.Link.Ready()):
			return nil
		}
	}
}

// sendDue sends the delayed frames that are due.
func (l *faulty) sendDue(now int64) {
	if l.txNext.Load() > now {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.flush(now) // the next Send returns the error
}

// openOr returns err, or ErrClosed if the link has been closed.
func (l *faulty) openOr(err error) error {
	if l.closed.Load() {
		return transport.ErrClosed
	}
	return err
}
