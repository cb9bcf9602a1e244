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
	window    uint32 // frames << fracBits
	threshold uint32 // where slow start ends
	limit     uint32 // Config.Window << fracBits
	cutAt     int64  // frames sent until then belong to the loss reacted to last
	nextSend  int64  // below one frame: no frame before
	lately    lossShare

	// What to go back to when it turns out that no frame was lost.
	oldWindow, oldThreshold uint32
	oldCutAt                int64
	unproven                int32 // frames sent again since the cut that may have been needless; negative: some were not
}

func (c *congestion) init(cfg *Config) {
	limit := uint32(cfg.Window) << fracBits
	*c = congestion{
		window:    uint32(cfg.InitialWindow) << fracBits,
		threshold: limit,
		limit:     limit,
		cutAt:     math.MinInt64,
		lately:    lossAtFirst,
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

// grow takes note of acked frames that left a flight of flight frames, the
// newest of them sent at sentAt. The window grows only while it is in use, and
// faster below gentle when no queue stands: quiet.
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
	case c.window < gentle && quiet: // a quarter of a frame each round trip makes equals in the end, a share does not
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
	c.remember(now)
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
		c.remember(now)
		c.threshold = c.reduced()
	}
	c.cutAt = now - 1 // the frame that goes now is the first of the next round
	c.window = max(min(c.window/2, oneFrame), minCwnd)
}

func (c *congestion) remember(now int64) {
	c.oldWindow, c.oldThreshold, c.oldCutAt = c.window, c.threshold, c.cutAt
	c.cutAt, c.unproven = now, 0
}

// again takes note of a lost frame that goes again.
func (c *congestion) again() {
	if c.unproven >= 0 {
		c.unproven++
	}
}

// needed takes note that a frame sent again had been lost indeed.
func (c *congestion) needed() { c.unproven = -1 }

// needless takes note of n frames that were sent again without need. When
// they are all since the last reaction, it is taken back.
func (c *congestion) needless(n int) (undone bool) {
	if c.unproven <= 0 {
		return false
	}
	c.unproven = max(c.unproven-int32(n), 0)
	if c.unproven == 0 {
		c.undo()
		return true
	}
	return false
}

// undo takes the last reaction back.
func (c *congestion) undo() {
	c.window = max(c.window, c.oldWindow)
	c.threshold = max(c.threshold, c.oldThreshold)
	c.cutAt = c.oldCutAt
	c.unproven = -1
}
