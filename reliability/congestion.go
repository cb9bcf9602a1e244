package reliability

import "math"

// The congestion window is a fixed-point number of frames with fracBits fractional bits, because it
// can fall below one.
const (
	fracBits = 16
	oneFrame = 1 << fracBits
	minCwnd  = oneFrame / 8
	// gentle is the window below which growth is proportional to the window, not one frame per
	// round trip. If many senders have a fair share of about one frame each, one frame more for
	// each would double the load.
	gentle = 8 * oneFrame
)

// congestion is the congestion window and its reaction to loss: slow start, then additive increase,
// and a decrease to seven tenths (as in CUBIC, RFC 9438) at most once a round trip. A window below
// one frame is paced.
type congestion struct {
	window    uint32    // frames << fracBits
	threshold uint32    // where slow start ends
	limit     uint32    // Config.Window << fracBits
	cutAt     int64     // frames sent before belong to the last loss that was reacted to
	nextSend  int64     // with a window below one frame: the earliest time of the next frame
	lately    lossShare // of frames found lost because later ones arrived
	inAll     lossShare // also counts frames that a probe or a timeout repaired

	// State that undo restores if no frame was lost after all.
	oldWindow, oldThreshold uint32
	oldCutAt                int64
	uncertain               int32 // frames retransmitted since the cut that may have been needless; negative: one was necessary
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

// frames returns how many frames may be in flight, at least one.
func (c *congestion) frames() int { return int(max(c.window, oneFrame) >> fracBits) }

// paced reports whether frames are sent one at a time, not before nextSend.
func (c *congestion) paced() bool { return c.window < oneFrame }

// interval returns the time between paced frames, or 0 without pacing.
func (c *congestion) interval(rtt int64) int64 {
	if c.window >= oneFrame {
		return 0
	}
	return rtt * oneFrame / int64(c.window)
}

// grow records the acknowledgement of acked frames out of flight frames in flight. The newest of
// them was sent at sentAt. The window grows only while it is in use. Below gentle it grows faster
// if quiet is set, which means that the path shows no queue.
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

// cut reacts at now to the loss of a frame that was sent at sentAt.
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

// collapse reacts at now to a retransmission timeout.
func (c *congestion) collapse(now int64, first bool) {
	if first {
		c.save(now)
		c.threshold = c.reduced()
	}
	c.cutAt = now - 1 // the frame sent now is the first of the next round
	c.window = max(min(c.window/2, oneFrame), minCwnd)
}

// save stores the window for undo, before a reaction to a loss at now.
func (c *congestion) save(now int64) {
	c.oldWindow, c.oldThreshold, c.oldCutAt = c.window, c.threshold, c.cutAt
	c.cutAt, c.uncertain = now, 0
}

// retransmitted records the retransmission of a frame that is considered lost.
func (c *congestion) retransmitted() {
	if c.uncertain >= 0 {
		c.uncertain++
	}
}

// needed records that a retransmission was necessary.
func (c *congestion) needed() { c.uncertain = -1 }

// needless records n retransmissions that were not necessary. If all retransmissions since the last
// reaction were needless, it undoes that reaction and returns true.
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

// undo restores the window from before the last reaction.
func (c *congestion) undo() {
	c.window = max(c.window, c.oldWindow)
	c.threshold = max(c.threshold, c.oldThreshold)
	c.cutAt = c.oldCutAt
	c.uncertain = -1
}
