package conn

import (
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/transport"
)

// Frames that the link refuses
//
// A link that takes nothing has a full queue, as a rule, and takes the frame a moment
// later. But a packet socket says the same (ENOBUFS) of a frame that the interface
// drops because it is longer than what lies behind it carries: the other end of a veth
// pair with a smaller MTU, or a token bucket that is smaller than the frame. Such a
// frame never passes. Other frames tell the cases apart. So those behind the refused
// one that are shorter, or go to another station, are offered at once, which keeps other
// connections going. When some have passed in several attempts, or none are there for
// refusedMax, the refused frame is dropped, and all to its station that are not shorter
// are from then on dropped when they are refused, until one passes. Whoever sent them
// takes them for lost, and judges the path by that.
type stall struct {
	stuck   bool          // the link has refused a frame since it last took one; or tooLong is known
	since   int64         // when it refused the frame at the head of the batch first; 0: it has not
	again   int64         // not to offer that before
	judged  int64         // when others passed last
	passed  int           // times that they have
	tooLong int           // the shortest length of frames that are known not to pass; 0: none
	to      ethertype.MAC // the station that they are for
}

const (
	// txRetry is how soon a full link is tried again, in nanoseconds. One that stays
	// full is tried ever more rarely.
	txRetry = 20_000
	// refusedTimes is in how many attempts others must have passed for a frame to be
	// too long.
	refusedTimes = 4
	// refusedMax is how long a frame is offered at the most, in nanoseconds.
	refusedMax = 50_000_000
)

// RetryAt returns when a link that has refused a frame is tried again.
func (s *stall) RetryAt(now int64) int64 { return max(s.again, now+txRetry) }

// passes notes that the link has taken frames.
func (s *stall) passes(frames []transport.Frame) {
	s.ease()
	for i := range frames {
		if s.known(&frames[i]) {
			s.tooLong = 0
		}
	}
	s.stuck = s.tooLong > 0
}

// ease forgets what was seen of the frame at the head of the batch.
func (s *stall) ease() { s.since, s.again, s.judged, s.passed = 0, 0, 0, 0 }

// known reports whether f is a frame of those that are known not to pass.
func (s *stall) known(f *transport.Frame) bool {
	return s.tooLong > 0 && f.Len() >= s.tooLong && ethertype.MAC(f.Head) == s.to
}

// refused is called when the link has not taken the frame at the head of the batch. It
// reports whether that frame has been dropped, so that the next one can go.
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

// overtake offers the frames behind head, the one at the head of the batch, that are
// shorter or go elsewhere, and reports whether the link has taken any. Those go before
// it.
func (b *Batch) overtake(head *transport.Frame) (passed bool) {
	size, elsewhere := head.Len(), true
	for i := b.first + 1; i < b.n; i++ {
		f := b.frames[i]
		if f.Len() >= size && (!elsewhere || ethertype.MAC(f.Head) == ethertype.MAC(head.Head)) {
			continue
		}
		k, err := b.link.Send(b.frames[i : i+1])
		if k == 0 && err == nil { // only shorter ones may pass still
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
