package conn

import (
	"fmt"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/vipl/internal/code"
)

// asks bounds how many connections ask after their peers at a time. Those of a NIC that have
// fallen silent together would else all ask in one sweep, and when they are thousands
// overflow the peer's receive ring. Then they ask again, twice each, and in the end take
// a peer for dead that lives. So a sweep asks for as many as fill a part of a ring, and the
// next one, soon, goes on behind them.
type asks struct {
	left  int    // that the sweep may ask for still
	from  uint16 // the port of the first that it asks for
	short bool   // it has not asked for all
}

const (
	askShare = 4          // of a ring: what asks, twice, and as much that begins connections
	askMin   = 4          // connections
	askSlots = 256        // of rings that do not tell theirs
	askAgain = 20_000_000 // ns until the next sweep, if one does not ask for all
)

// begin begins a sweep over the connections, by their ports. The peers' rings hold as many
// frames as this NIC's; 0 if that is not known.
func (s *asks) begin(slots int) {
	if slots == 0 {
		slots = askSlots
	}
	s.left, s.short = max(slots/askShare, askMin), s.from > 0
}

// take reports whether the connection at a port may ask in this sweep.
func (s *asks) take(port uint16) bool {
	switch {
	case port < s.from: // it had its chance in the last sweep, or is the first to have one in the next
		return false
	case s.left > 0:
		s.left--
		return true
	case s.left == 0: // the next sweep goes on here
		s.left, s.short, s.from = -1, true, port
	}
	return false
}

// end ends a sweep, and reports whether another one is to come soon.
func (s *asks) end() bool {
	if s.left >= 0 {
		s.from = 0
	}
	return s.short
}

// probesMin is how many keepalive probes must have stayed without answer before a peer is
// given up, so that a process which itself was stopped for long does not take its peers
// for dead.
const probesMin = 3

// swept reports whether c wants the sweep for its peer.
func (c *Conn) swept() bool { return c.State == code.StateConnected && c.Reliable }

// KeepAlive asks the peer whether it lives if it has been silent, and gives it up if it
// has been so for PeerTimeout. Any frame from it counts as an answer. It is called by the
// sweep, and has that go on.
func (c *Conn) KeepAlive() {
	if !c.swept() {
		return
	}
	a := c.a
	a.timers.sweep = a.Now + a.timers.every
	c.Path.probeLong()
	silent, limit := a.Now-c.heard, int64(c.terms.PeerTimeout)
	switch {
	case silent > limit && c.probes >= probesMin:
		c.giveUp(fmt.Sprintf("silent for %v, %d keepalive probes unanswered: is the peer running, is its interface up?",
			time.Duration(silent).Round(time.Millisecond), c.probes))
	case silent > limit/4+int64(c.probes)*limit/16 && a.timers.take(c.Port):
		c.probes++
		c.SendAck(ethertype.FlagAckNow)
		if c.probes > 1 { // either the peer is dead or the path loses much
			c.SendAck(ethertype.FlagAckNow)
		}
	}
}
