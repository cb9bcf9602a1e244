package conn

import (
	"fmt"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/vipl/internal/code"
)

// probesMin is how many keepalive probes must have stayed without answer before a peer is
// given up.
const probesMin = 3

// probeFrames is how many frames a keepalive probe is at the most, the fourth one and those
// behind it: of 12 probes over a path that loses 30 % each way one is answered but for a
// chance of 1e-12, and with two frames each of 2e-7, which a job with thousands of
// connections comes to see.
const probeFrames = 4

// swept reports whether c wants the sweep for its peer.
func (c *Conn) swept() bool { return c.State == code.StateConnected && c.Reliable }

// livesSilently reports whether the peer has been silent for long and is known to live.
func (c *Conn) livesSilently() bool {
	return c.shared.now-c.heard > int64(c.terms.PeerTimeout)/4 && c.shared.hooks.Lives(c.Remote)
}

// KeepAlive asks the peer whether it lives if it has been silent, and gives it up if it
// has been so for PeerTimeout, unless it is known to live. Any frame from it counts as an answer. Time in which this
// process had no processor does not count, because it asked nothing then, and the peer may have
// had none either. It is called by the sweep, and has that go on.
func (c *Conn) KeepAlive() {
	if !c.swept() {
		return
	}
	sh := c.shared
	sh.timers.sweep = sh.now + sh.timers.every
	c.Path.probeLong()
	c.heard = min(c.heard+sh.timers.still, sh.now)
	silent, limit := sh.now-c.heard, int64(c.terms.PeerTimeout)
	switch {
	case silent > limit && c.probes >= probesMin && !sh.hooks.Lives(c.Remote):
		c.giveUp(fmt.Sprintf("silent for %v, %d keepalive probes unanswered: is the peer running, is its interface up?",
			time.Duration(silent).Round(time.Millisecond), c.probes))
	case silent > limit/4+int64(c.probes)*limit/16 && sh.timers.asks.Allow(c.Port):
		c.probes++
		for range min(c.probes, probeFrames) { // either the peer is dead or the path loses much
			sh.batch.Part()
			c.SendAck(ethertype.FlagAckNow)
		}
	}
}
