package conn

import (
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/transport"
)

// Frames that the link refuses
//
// If a link accepts no frame, usually its queue is full, and it accepts the frame a moment later.
// But a packet socket returns the same error (ENOBUFS) for a frame that the interface drops because
// the next device cannot carry its length: the other end of a veth pair has a smaller MTU, or a
// token bucket is smaller than the frame. Such a frame never passes.
//
// Other frames distinguish the cases. The link is therefore offered at once the frames behind the
// refused one that are shorter, or go to another station. This also keeps other connections going.
// If some have passed in several attempts, or if there are none for refusedMax, the refused frame
// is dropped. From then on, refused frames to its station that are at least as long are dropped at
// once, until one passes. Their sender considers them lost, and judges the path by that.
type stall struct {
	stuck   bool          // the link has refused a frame since it last accepted one; or tooLong is known
	since   int64         // when it first refused the frame at the head of the batch; 0: it has not
	again   int64         // when to offer that frame again, at the earliest
	judged  int64         // when other frames last passed
	passed  int           // attempts in which they have
	tooLong int           // the shortest length of frames known not to pass; 0: none
	to      ethertype.MAC // the station that they go to
}

const (
	// txRetry is the interval, in nanoseconds, after which a full link is tried again. The interval
	// grows while the link stays full.
	txRetry = 20_000
	// refusedTimes is the number of attempts in which other frames must have passed before a frame
	// counts as too long.
	refusedTimes = 4
	// refusedMax is the maximum time for which a frame is offered, in nanoseconds.
	refusedMax = 50_000_000
)

// RetryAt returns when to try a link again that has refused a frame.
func (s *stall) RetryAt(now int64) int64 { return max(s.again, now+txRetry) }

// passes records that the link has accepted frames.
func (s *stall) passes(frames []transport.Frame) {
	s.ease()
	for i := range frames {
		if s.known(&frames[i]) {
			s.tooLong = 0
		}
	}
	s.stuck = s.tooLong > 0
}

// ease resets the observations of the frame at the head of the batch.
func (s *stall) ease() { s.since, s.again, s.judged, s.passed = 0, 0, 0, 0 }

// known reports whether f is known not to pass.
func (s *stall) known(f *transport.Frame) bool {
	return s.tooLong > 0 && f.Len() >= s.tooLong && ethertype.MAC(f.Head) == s.to
}

// refused is called when the link has not accepted the frame at the head of the batch. It reports
// whether it has dropped that frame, so that the next one can be sent.
func (b *Batch) refused(now int64) (dropped bool) {
	s, f := &b.stall, b.frames[b.first]
	s.stuck = true
	if s.known(&f) {
		b.dropTooLong()
		return true
	}
	if s.since == 0 {
		s.since = now
	}
	if b.overtake(&f) && now >= s.judged+txRetry {
		s.judged = now
		s.passed++
	}
	if wait := now - s.since; s.passed < refusedTimes && wait < refusedMax {
		if wait > 8*txRetry {
			s.again = now + wait/8
		}
		return false
	}
	s.tooLong, s.to = f.Len(), ethertype.MAC(f.Head)
	b.dropTooLong()
	return true
}

// dropTooLong drops the frame at the head of the batch.
func (b *Batch) dropTooLong() {
	b.stats.TxTooLong++
	b.first++
	b.ease()
}

// overtake offers the frames behind head, the first frame of the batch, that are shorter or go to
// another station. It reports whether the link has accepted any. Those overtake head.
func (b *Batch) overtake(head *transport.Frame) (passed bool) {
	size, elsewhere := head.Len(), true
	for i := b.first + 1; i < b.n; i++ {
		f := b.frames[i]
		if f.Len() >= size && (!elsewhere || ethertype.MAC(f.Head) == ethertype.MAC(head.Head)) {
			continue
		}
		k, err := b.link.Send(b.frames[i : i+1])
		if k == 0 && err == nil { // only shorter ones may still pass
			size, elsewhere = min(size, f.Len()), false
			continue
		}
		copy(b.frames[b.first+1:i+1], b.frames[b.first:i])
		b.frames[b.first] = f
		b.first++
		if err != nil {
			b.failed(err)
			b.stats.TxDropped++
			continue
		}
		b.stats.TxFrames++
		b.stats.TxBytes += uint64(f.Len())
		passed = true
	}
	return passed
}
