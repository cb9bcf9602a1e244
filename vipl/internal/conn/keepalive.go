package conn

import (
	"fmt"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/vipl/internal/code"
)

// probesMin is the number of unanswered keep-alive probes before a peer is given up.
const probesMin = 3

// probeFrames is the maximum number of frames of a keep-alive probe, which the fourth and all later
// probes have. On a path that loses 30 % in each direction, the probability that none of 12 probes
// is answered is then 1e-12. With two frames it would be 2e-7, which does occur in a job with
// thousands of connections.
const probeFrames = 4

// swept reports whether the sweep must probe the peer of c.
func (c *Conn) swept() bool { return c.State == code.StateConnected && c.Reliable }

// livesSilently reports whether the peer has been silent for long and is known to be alive.
func (c *Conn) livesSilently() bool {
	return c.shared.now-c.heard > int64(c.terms.PeerTimeout)/4 && c.shared.hooks.Lives(c.Remote)
}

// KeepAlive probes a silent peer, and gives it up after a silence of PeerTimeout unless it is known
// to be alive. Any frame from the peer counts as an answer. Time in which this process did not run
// does not count: it sent no probes then, and the peer may not have run either. The sweep calls
// KeepAlive, which keeps the sweep going.
func (c *Conn) KeepAlive() {
	if !c.swept() {
		return
	}
	sh := c.shared
	sh.timers.sweep = sh.now + sh.timers.every
	c.Path.rest()
	c.Path.answerLate()
	c.heard = min(c.heard+sh.timers.still, sh.now)
	silent, limit := sh.now-c.heard, int64(c.terms.PeerTimeout)
	switch {
	case silent > limit && c.probes >= probesMin && !sh.hooks.Lives(c.Remote):
		c.giveUp(fmt.Sprintf("silent for %v, %d keepalive probes unanswered: is the peer running, is its interface up?",
			time.Duration(silent).Round(time.Millisecond), c.probes))
	case silent > limit/4+int64(c.probes)*limit/16 && sh.timers.asks.Allow(c.Port):
		c.probes++
		for range min(c.probes, probeFrames) { // either the peer is dead or the path loses many frames
			sh.batch.Part()
			c.SendAck(ethertype.FlagAckNow)
		}
	}
}
