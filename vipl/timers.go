package vipl

import (
	"fmt"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
)

// timerSet finds the next thing that is due. It holds the VIs that have a
// timer running, a few at any time, and the sweep over all: keepalive, and a look
// at the interface, also when there is no connection.
type timerSet struct {
	next  int64 // nothing is due before; may be early, never late
	sweep int64
	every int64 // ns between sweeps
	vis   []*VI
}

const (
	sweepMax = 250_000_000 // ns between sweeps, at the most
	sweepMin = 2_000_000
	// probesMin is how many keepalive probes must have stayed without answer
	// before a peer is given up, so that a process which itself was stopped
	// for long does not take its peers for dead.
	probesMin = 3
	// triesInvain is how often a frame is sent again by timer before the peer is
	// asked besides, twice, what it has received.
	triesInvain = 4
)

func (t *timerSet) init(n *NIC) {
	t.next, t.sweep, t.every = forever, forever, sweepMax
	if n.checks {
		t.sweep = n.now + sweepMax
		t.next = t.sweep
	}
}

// watch adds v to the VIs with a timer and starts the sweep.
func (t *timerSet) watch(v *VI) {
	n := v.nic
	if !v.timed {
		v.timed = true
		t.vis = append(t.vis, v)
	}
	if v.state == StateConnected && v.reliable {
		t.every = max(min(t.every, int64(v.attr.PeerTimeout)/16), sweepMin)
	}
	if v.swept() {
		t.sweep = min(t.sweep, n.now+t.every)
	}
	t.arm(n, min(v.due(), t.sweep))
}

// arm makes sure that the engine runs at the given time, waking the sleeper if
// it would sleep longer.
func (t *timerSet) arm(n *NIC, at int64) {
	if at < t.next {
		t.next = at
		n.eng.WakeBefore(at)
	}
}

// arm notes v's next deadline after it has sent or received.
func (v *VI) arm() {
	if at := v.due(); at != forever {
		t := &v.nic.timers
		if !v.timed {
			v.timed = true
			t.vis = append(t.vis, v)
		}
		t.arm(v.nic, at)
	}
}

// due returns when v's next timer is due.
func (v *VI) due() int64 {
	switch {
	case v.state == StateConnectPending:
		return min(v.hs.next, v.hs.deadline)
	case v.state == StateConnected && v.reliable:
		at := min(v.tx.Deadline(), v.rx.Deadline())
		if v.nic.tx.n == v.nic.tx.limit { // the link takes nothing now
			at = max(at, v.nic.tx.retryAt(v.nic.now))
		}
		return at
	}
	return forever
}

func (t *timerSet) expired(v *VI) bool { return v.nic.now >= v.hs.deadline }

// runTimers does what is due and finds when the next is.
func (n *NIC) runTimers() {
	t := &n.timers
	if n.now >= t.sweep {
		t.sweep = forever
		n.sweep()
	}
	for _, v := range t.vis {
		if v.due() <= n.now {
			v.runTimer()
		}
	}
	n.findTimer()
}

// findTimer finds when the next timer is due. It runs none, so that a caller
// about to sleep misses neither what that would complete nor what it would send.
func (n *NIC) findTimer() {
	t := &n.timers
	t.next = forever
	keep := t.vis[:0]
	for _, v := range t.vis {
		if at := v.due(); at != forever {
			t.next = min(t.next, at)
			keep = append(keep, v)
		} else {
			v.timed = false
		}
	}
	clear(t.vis[len(keep):])
	t.vis = keep
	t.next = min(t.next, t.sweep)
	if n.tx.n > 0 {
		t.next = min(t.next, n.tx.retryAt(n.now))
	}
}

func (v *VI) runTimer() {
	n := v.nic
	if v.state == StateConnectPending {
		v.hs.step(v)
		return
	}
	if n.now >= v.tx.Deadline() {
		if err := v.tx.OnTimer(n.now); err != nil {
			v.giveUp(err.Error())
			return
		}
		v.pump()
		if tries := v.tx.Stats().Tries; tries > triesInvain { // the path loses much: perhaps it was the answers
			if !v.doubtPath(tries) {
				return
			}
			v.sendAck(ethertype.FlagAckNow)
			v.sendAck(ethertype.FlagAckNow)
		}
	}
	v.ackIfDue()
}

// giveUp ends a connection whose peer does not answer. That may be this side's
// fault.
func (v *VI) giveUp(detail string) {
	if v.nic.checkLink(); v.state != StateConnected {
		return
	}
	if v.nic.failed != nil {
		detail = v.nic.failed.Error() + "; " + detail
	}
	v.sendDisconnect(reasonSilent)
	v.enterError(ErrUnreachable, detail, reasonSilent)
	v.nic.stats.Failures++
}

// swept reports whether v wants the sweep for its peer.
func (v *VI) swept() bool { return v.state == StateConnected && v.reliable }

// sweep looks at the interface, asks silent peers whether they live, and gives
// up those that have been silent for PeerTimeout. Any frame from a peer counts
// as an answer.
func (n *NIC) sweep() {
	n.checkLink()
	if n.checks && n.dead == nil { // who waits for a request, or is about to make one, has no other way to know
		n.timers.sweep = n.now + sweepMax
	}
	for _, v := range n.vis {
		if v == nil || !v.swept() {
			continue
		}
		n.timers.sweep = n.now + n.timers.every
		v.askLong()
		silent, limit := n.now-v.heard, int64(v.attr.PeerTimeout)
		switch {
		case silent > limit && v.probes >= probesMin:
			v.giveUp(fmt.Sprintf("silent for %v, %d keepalive probes unanswered: is the peer running, is its interface up?",
				time.Duration(silent).Round(time.Millisecond), v.probes))
		case silent > limit/4+int64(v.probes)*limit/16:
			v.probes++
			v.sendAck(ethertype.FlagAckNow)
			if v.probes > 1 { // either the peer is dead or the path loses much
				v.sendAck(ethertype.FlagAckNow)
			}
		}
	}
}
