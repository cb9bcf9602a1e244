package sim

import (
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/fifo"
)

// Bytes on the wire in addition to the frame: preamble, check sequence and gap between frames. Then
// the minimum length on the wire.
const (
	wireOverhead = 8 + 4 + 12
	wireLeast    = 60
)

// wireTime returns how long n bytes of frame occupy a line of the given bandwidth in bits per
// second, in nanoseconds. A line of 0 bits per second is infinitely fast.
func wireTime(n int, bandwidth int64) int64 {
	if bandwidth == 0 {
		return 0
	}
	bits := int64(max(n, wireLeast)+wireOverhead) * 8
	return (bits*int64(time.Second) + bandwidth - 1) / bandwidth
}

// wireTime cannot overflow: the largest frame times 8e9 is 5e14.
const _ = int64(ethertype.MaxFrame+wireOverhead) * 8 * int64(time.Second)

// line is a queue of frames with a serial line behind it: an uplink, or an output of the switch. It
// only computes when each frame has left.
type line struct {
	bandwidth int64 // bits per second, 0 is infinite
	limit     int   // maximum number of frames that wait or are being sent
	free      int64 // when the last frame will have left
	leaves    fifo.Queue[int64]
}

// admit queues a frame of n bytes, and returns when its last bit will have left. It returns false
// if the queue is full.
func (l *line) admit(now int64, n int) (leaves int64, ok bool) {
	if l.bandwidth == 0 {
		return now, true
	}
	for l.leaves.Len() > 0 && *l.leaves.At(0) <= now {
		l.leaves.Pop()
	}
	if l.leaves.Len() >= l.limit {
		return 0, false
	}
	l.free = max(l.free, now) + wireTime(n, l.bandwidth)
	l.leaves.Push(l.free)
	return l.free, true
}
