package reliability

import "github.com/bobnet-go/bobnet/ethertype"

// filterWindow is by how many frames a frame of the unreliable level may be overtaken and still be
// accepted. It is also how many frames may be missing before a frame that is accepted at once.
const filterWindow = filterWords * 64

const filterWords = 4

// filterRun is how many consecutive frames outside the window move the window to them.
const filterRun = 4

// Filter accepts each frame at most once on the unreliable level, where nothing is retransmitted and
// gaps remain. Its window slides with the newest frame.
//
// A frame outside the window is refused, because otherwise one frame with a wrong number would make
// the Filter refuse all valid frames after it. If several such frames follow each other, each a
// little ahead of the previous one, and none from within the window, then the window is wrong, for
// example after a long gap. The window then moves to them (the reasoning of RFC 3550, appendix
// A.1). If a network repeated several old frames in a row without any new one, they would be
// accepted again; Ethernet does not do that.
//
// The zero Filter needs Init. Only one goroutine at a time may use it.
type Filter struct {
	top  ethertype.Seq // one past the newest accepted
	seen [filterWords]uint64
	run  int           // consecutive frames outside the window
	last ethertype.Seq // number of the last frame of the run
}

// Init prepares f for a connection whose first frame from the peer has the number first.
func (f *Filter) Init(first ethertype.Seq) {
	*f = Filter{top: first}
	for i := range f.seen {
		f.seen[i] = ^uint64(0) // frames before the first do not exist
	}
}

// Check returns whether to accept the frame seq: Accept, Duplicate or Ahead. Frames before the
// window count as Duplicate, because they may be. Check changes nothing.
func (f *Filter) Check(seq ethertype.Seq) Verdict {
	d := seq.Sub(f.top)
	switch {
	case d >= filterWindow:
		return Ahead
	case d < -filterWindow || d < 0 && f.taken(seq):
		return Duplicate
	}
	return Accept
}

func (f *Filter) taken(seq ethertype.Seq) bool {
	return f.seen[seq/64%filterWords]>>(seq%64)&1 != 0
}

// Accept records that the frame seq has been accepted. The last Check must have returned Accept for
// it.
func (f *Filter) Accept(seq ethertype.Seq) {
	f.run = 0
	for !seq.Less(f.top) {
		f.seen[f.top/64%filterWords] &^= 1 << (f.top % 64)
		f.top++
	}
	f.seen[seq/64%filterWords] |= 1 << (seq % 64)
}

// Refuse records that the frame seq has arrived, for which the last Check did not return Accept. It
// reports whether the window has moved to the frame, because several frames outside the window have
// followed each other. The frame has then been accepted, like the first one of a connection, and
// nothing is known about earlier frames.
func (f *Filter) Refuse(seq ethertype.Seq) (moved bool) {
	if d := seq.Sub(f.top); -filterWindow <= d && d < filterWindow {
		f.run = 0
		return false
	}
	if ahead := seq.Sub(f.last); f.run == 0 || ahead <= 0 || ahead > filterWindow {
		f.run = 0
	}
	f.run++
	f.last = seq
	if f.run < filterRun {
		return false
	}
	f.Init(seq)
	f.Accept(seq)
	return true
}
