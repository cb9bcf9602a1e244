package conn

import (
	"fmt"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/vipl/internal/code"
)

// timerSet determines the next due time. It holds the connections with a running timer, usually a
// few, and the sweep: keep-alive, and a check of the interface, which also runs without
// connections.
type timerSet struct {
	next  int64 // no timer is due before it; may be early, never late
	sweep int64
	every int64 // ns between sweeps
	still int64 // ns before the current sweep in which this process did not run
	conns []*Conn
	asks  sweepBudget
}

const (
	sweepMax = 250_000_000 // maximum ns between sweeps
	sweepMin = 2_000_000
	// triesInvain is the number of retransmissions by timer after which the peer is also asked,
	// twice, what it has received.
	triesInvain = 4
)

func (t *timerSet) init() { t.next, t.sweep, t.every = transport.Forever, transport.Forever, sweepMax }

// sweepFrom makes the sweep continue from now.
func (t *timerSet) sweepFrom(now int64) {
	t.sweep = now + sweepMax
	t.next = min(t.next, t.sweep)
}

// Watch adds c to the connections with a timer and starts the sweep.
func (sh *Shared) Watch(c *Conn) {
	t := &sh.timers
	t.track(c)
	if c.State == code.StateConnected && c.Reliable {
		t.every = max(min(t.every, int64(c.terms.PeerTimeout)/16), sweepMin)
	}
	if c.swept() {
		t.sweep = min(t.sweep, sh.now+t.every)
	}
	t.arm(sh, min(c.due(), t.sweep))
}

func (t *timerSet) track(c *Conn) {
	if !c.marks.timed {
		c.marks.timed = true
		t.conns = append(t.conns, c)
	}
}

// arm makes sure that the engine runs at the given time, waking the sleeper if
// it would sleep longer.
func (t *timerSet) arm(sh *Shared, at int64) {
	if at < t.next {
		t.next = at
		sh.eng.WakeBefore(at)
	}
}

// arm records c's next deadline after c has sent or received.
func (c *Conn) arm() {
	if !c.Reliable { // it has no timer
		return
	}
	if at := c.due(); at != transport.Forever {
		t := &c.shared.timers
		t.track(c)
		if at < t.next {
			t.arm(c.shared, at)
		}
	}
}

// due returns when c's next timer is due.
func (c *Conn) due() int64 {
	switch {
	case c.State == code.StateConnected && c.Reliable:
		at := min(c.tx.sender.Deadline(), c.rx.receiver.Deadline())
		if c.shared.batch.Full() { // the link takes nothing now
			at = max(at, c.shared.batch.RetryAt(c.shared.now))
		}
		return at
	case c.State == code.StateConnectPending:
		return c.Owner.Due()
	}
	return transport.Forever
}

// runTimers runs the due timers and determines when the next one is due.
func (sh *Shared) runTimers() {
	t := &sh.timers
	if sh.now >= t.sweep {
		t.still = max(sh.now-t.sweep-sweepMax, 0)
		t.sweep = transport.Forever
		t.asks.Begin(sh.info.Slots)
		sh.restLong()
		sh.hooks.Sweep()
		if t.asks.End() {
			t.sweep = min(t.sweep, sh.now+min(t.every, sweepAgain))
		}
		t.still = 0
	}
	for _, c := range t.conns {
		if c.due() <= sh.now {
			c.runTimer()
		}
	}
	sh.FindTimer()
}

// FindTimer returns when the next timer is due. It runs none, so that a caller
// about to sleep misses neither what that would complete nor what it would send.
func (sh *Shared) FindTimer() int64 {
	t := &sh.timers
	t.next = transport.Forever
	keep := t.conns[:0]
	for _, c := range t.conns {
		if at := c.due(); at != transport.Forever {
			t.next = min(t.next, at)
			keep = append(keep, c)
		} else {
			c.marks.timed = false
		}
	}
	clear(t.conns[len(keep):])
	t.conns = keep
	t.next = min(t.next, t.sweep)
	if sh.batch.Len() > 0 {
		t.next = min(t.next, sh.batch.RetryAt(sh.now))
	}
	return t.next
}

func (c *Conn) runTimer() {
	sh := c.shared
	if c.State == code.StateConnectPending {
		c.Owner.Step()
		return
	}
	if sh.now >= c.tx.sender.Deadline() {
		if c.livesSilently() {
			c.tx.sender.Bear(sh.now)
		}
		if err := c.tx.sender.OnTimer(sh.now); err != nil {
			c.giveUp(err.Error())
			return
		}
		c.drive(onTurn)
		if tries := c.tx.sender.Stats().Tries; tries > triesInvain { // the path loses much: perhaps it was the answers
			if !c.Path.probeAgain(tries) {
				return
			}
			c.SendAck(ethertype.FlagAckNow)
			c.shared.batch.Part()
			c.SendAck(ethertype.FlagAckNow)
		}
		return
	}
	c.drive(onTurn)
}

// giveUp ends a connection whose peer does not answer. The fault may be on this side.
func (c *Conn) giveUp(detail string) {
	trouble := c.shared.hooks.Trouble()
	if c.State != code.StateConnected {
		return
	}
	cause := code.ErrUnreachable
	if trouble != nil && c.Remote.MAC != c.shared.info.MAC {
		cause, detail = fmt.Errorf("%w: %w", cause, trouble), ""
	}
	c.SendDisconnect(code.ReasonSilent)
	c.EnterError(cause, detail, code.ReasonSilent)
	c.shared.CountFailure()
}
