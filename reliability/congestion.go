package reliability

import "math"

// The congestion window is a number of frames with fracBits binary digits
// after the point, because it can fall below one.
const (
	fracBits = 16
	oneFrame = 1 << fracBits
	minCwnd  = oneFrame / 8
	// gentle is the window up to which it grows by a share of itself and not
	// by a frame each round trip: with many senders whose fair share is about
	// one frame, one frame more each would double the load.
	gentle = 8 * oneFrame
)

// congestion is the congestion window and how it reacts to loss: slow start,
// then additive increase, and a decrease to seven tenths (as CUBIC in RFC
// 9438) at most once a round trip. Below one frame it paces.
type congestion struct {
	window    uint32    // frames << fracBits
	threshold uint32    // where slow start ends
	limit     uint32    // Config.Window << fracBits
	cutAt     int64     // frames sent until then belong to the loss reacted to last
	nextSend  int64     // with a window below one frame: the earliest time of the next frame
	lately    lossShare // of frames that later ones have shown to be lost
	inAll     lossShare // and of those that a probe or a time-out has repaired

	// What undo restores when it turns out that no frame was lost.
	oldWindow, oldThreshold uint32
	oldCutAt                int64
	uncertain               int32 // frames sent again since the cut of which it is not known that they had been lost; negative: one had been
}

func (c *congestion) init(cfg *Config) {
	limit := uint32(cfg.Window) << fracBits
	*c = congestion{
		window:    uint32(cfg.InitialWindow) << fracBits,
		threshold: limit,
		limit:     limit,
		cutAt:     math.MinInt64,
		lately:    lossAtFirst,
		inAll:     lossAtFirst,
	}
}

// frames returns how many frames may be in flight, not below one.
func (c *congestion) frames() int { return int(max(c.window, oneFrame) >> fracBits) }

// paced reports whether frames go one at a time, each at nextSend at the earliest.
func (c *congestion) paced() bool { return c.window < oneFrame }

// interval returns the time between frames when they are paced, 0 when not.
func (c *congestion) interval(rtt int64) int64 {
	if c.window >= oneFrame {
		return 0
	}
	return rtt * oneFrame / int64(c.window)
}

// grow records that acked frames, of flight that were under way, have been acknowledged,
// the newest of them sent at sentAt. The window grows only while it is in use. Below
// gentle it grows faster if quiet, when no queue shows on the path.
func (c *congestion) grow(sentAt int64, acked, flight int, quiet bool) {
	if c.window == c.limit || sentAt <= c.cutAt {
		return
	}
	frames, window := int64(acked)<<fracBits, int64(c.window)
	switch {
	case c.window < c.threshold:
		if 2*flight < c.frames() {
			return
		}
		window += frames
	case flight < c.frames():
		return
	case c.window < gentle && quiet: // a quarter of a frame each round trip makes streams equal in the end, a share does not
		window += max(frames/16, frames*oneFrame/max(window, oneFrame)/4)
	case c.window < gentle:
		window += frames / 16
	default:
		window += frames * oneFrame / window
	}
	c.window = uint32(min(window, int64(c.limit)))
}

// cut reacts at now to the loss of a frame sent at sentAt.
func (c *congestion) cut(now, sentAt int64) bool {
	if sentAt <= c.cutAt {
		return false
	}
	c.save(now)
	c.window = c.reduced()
	c.threshold = c.window
	return true
}

// reduced returns the window after a loss.
func (c *congestion) reduced() uint32 {
	if c.window < gentle {
		return max(c.window/2, minCwnd)
	}
	return c.window / 10 * 7
}

// collapse reacts at now to a retransmission time-out.
func (c *congestion) collapse(now int64, first bool) {
	if first {
		c.save(now)
		c.threshold = c.reduced()
	}
	c.cutAt = now - 1 // the frame that goes now is the first of the next round
	c.window = max(min(c.window/2, oneFrame), minCwnd)
}

// save keeps the window for undo, before a reaction to loss at now.
func (c *congestion) save(now int64) {
	c.oldWindow, c.oldThreshold, c.oldCutAt = c.window, c.threshold, c.cutAt
	c.cutAt, c.uncertain = now, 0
}

// retransmitted records that a frame believed lost is sent again.
func (c *congestion) retransmitted() {
	if c.uncertain >= 0 {
		c.uncertain++
	}
}

// needed records that a frame which was sent again had been lost indeed.
func (c *congestion) needed() { c.uncertain = -1 }

// needless records n frames that were sent again although they had not been lost. When
// all frames sent again since the last reaction were of that kind, it undoes that
// reaction and reports so.
func (c *congestion) needless(n int) (undone bool) {
	if c.uncertain <= 0 {
		return false
	}
	c.uncertain = max(c.uncertain-int32(n), 0)
	if c.uncertain == 0 {
		c.undo()
		return true
	}
	return false
}

// undo restores the window to what it was before the last reaction.
func (c *congestion) undo() {
	c.window = max(c.window, c.oldWindow)
	c.threshold = max(c.threshold, c.oldThreshold)
	c.cutAt = c.oldCutAt
	c.uncertain = -1
}
